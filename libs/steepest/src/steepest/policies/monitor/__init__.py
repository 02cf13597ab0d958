"""Turns heartbeats into facts (events of a pool's log)."""
