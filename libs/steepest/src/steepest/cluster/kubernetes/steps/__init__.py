"""The calls that start, stop and cap an incarnation, step by step: a call a file."""
