"""Plans carried out: pure machines that decide what comes next, and the effectors that do it."""
