"""Watches running jobs: what their losses, their silence and their use say of a training that goes nowhere."""
