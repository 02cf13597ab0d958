"""A whole pool in virtual time: the real deciders, view and saga over simulated nodes."""
