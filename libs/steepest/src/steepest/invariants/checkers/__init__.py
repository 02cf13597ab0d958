"""One invariant a file: a checker folds raw events and reports each breach."""
