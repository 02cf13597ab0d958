"""Preemption in virtual time: epochs, suspensions that wait for their end, and reloads over shared storage bandwidth."""
