"""The ordered log in files, which is a recording at the same time."""
