"""How messages of a device reach the broker: a bounded outbox on disk and its sender."""
