"""Reading and asking a pool: its log, folded to a view, and what a user appends to it."""
