"""The published experiments again in virtual time, compared with the published results."""
