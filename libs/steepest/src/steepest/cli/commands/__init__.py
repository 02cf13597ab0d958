"""One command a file, each a plain click command named after it."""
