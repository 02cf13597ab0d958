"""How a loop starts again: snapshots, the log's identity, what may be trimmed."""
