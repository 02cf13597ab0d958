"""The parts of training-log lines: numbers, names, prefixes, JSON objects."""
