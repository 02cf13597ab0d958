"""Metrics, health and lag of a running process."""
