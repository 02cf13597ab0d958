"""Histories written by hand: builders of logs and pools, and scenarios in text."""
