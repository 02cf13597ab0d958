"""Plans carried out: the pure part that says what comes next, and the effector that does it."""
