"""What the loss of a simulated job does: curves, noise, families of both, and the real runs they were fitted to."""
