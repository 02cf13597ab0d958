"""Sweeps: trials of an array that are compared at rungs, of which the best go on."""
