"""The ordered log in files, which is also a recording."""
