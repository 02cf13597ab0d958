"""The settings of a process: one frozen tree, read once from defaults, a file, the environment and flags."""
