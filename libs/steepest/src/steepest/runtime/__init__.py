"""Runs deciders and effectors over logs."""
