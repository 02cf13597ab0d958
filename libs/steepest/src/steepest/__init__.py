"""Steepest schedules deep-learning training jobs by how fast they still learn."""
