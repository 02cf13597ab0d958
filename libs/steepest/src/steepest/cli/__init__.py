"""The command line: a command a file, each a plain click command named after it."""
