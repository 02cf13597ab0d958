"""What Steepest knows of the kinds of objects that users opt in, how an object is read by it, and what is asked of one."""
