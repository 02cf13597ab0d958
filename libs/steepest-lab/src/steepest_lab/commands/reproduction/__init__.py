"""What ``steepest reproduce`` does for papers whose claims have a report of their own."""
