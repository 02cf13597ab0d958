"""Each dashboard, a file."""
