"""Allocation policies from the literature, as baselines: which jobs run, with which shares, when resources are short."""
