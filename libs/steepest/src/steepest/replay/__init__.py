"""Folds recordings through the deciders again, and compares the recorded decisions with the new ones."""
