"""The topics and events as documents."""
