"""Shared by the adapters that keep a state folder: the control protocol, checkpoints, locks and rosters."""
