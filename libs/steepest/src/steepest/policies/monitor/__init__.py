"""From heartbeats to facts."""
