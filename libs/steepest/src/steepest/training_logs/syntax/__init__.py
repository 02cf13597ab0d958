"""What the lines of training logs are made of: numbers, names, prefixes, JSON objects."""
