"""What the calls that start, stop and cap an incarnation do, step by step: a call a file."""
