"""Compares a run with fair sharing of the same jobs: in real pairs, or simulated from the recording."""
