"""A recording played on in virtual time: what another policy would have made of it."""
