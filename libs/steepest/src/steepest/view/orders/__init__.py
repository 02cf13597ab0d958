"""Orders and lists of changes that the view keeps up to date; they know nothing of what they order."""
