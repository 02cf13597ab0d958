"""``steepest reproduce`` for papers whose claims have their own report."""
