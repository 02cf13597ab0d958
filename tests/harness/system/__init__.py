"""Whole systems for tests: in memory, or as real processes."""
