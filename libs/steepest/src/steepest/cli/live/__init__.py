"""The live screen of ``steepest top`` and of the demo: a pool drawn in a terminal."""
