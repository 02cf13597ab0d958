"""Losses of simulated jobs: curves, noise, families of both, and the real runs to which they were fitted."""
