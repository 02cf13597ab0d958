"""What runs on a node: heartbeats to the log, and every job's losses, read from what it prints or reports."""
