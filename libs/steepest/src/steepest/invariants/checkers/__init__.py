"""One invariant per file: a checker folds raw events and reports every breach."""
