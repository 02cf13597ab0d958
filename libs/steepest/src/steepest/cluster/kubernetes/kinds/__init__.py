"""What Steepest knows of the kinds of objects that users opt in: a description of each, and how an object is read by it."""
