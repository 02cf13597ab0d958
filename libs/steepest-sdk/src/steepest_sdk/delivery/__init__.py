"""Delivers a device's messages to the broker: a bounded outbox on disk and its sender."""
