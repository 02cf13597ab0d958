"""What the command line knows of a job beside the log: its name, its program, its output."""
