"""The kinds of objects that users opt in: how an object is read by its kind, and the demands on it."""
