"""Every decision that Steepest makes. Pure: nothing here does I/O, reads a clock, or iterates over a set."""
