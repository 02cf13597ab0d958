"""Recordings folded through the deciders again, and what was decided then compared with what is decided now."""
