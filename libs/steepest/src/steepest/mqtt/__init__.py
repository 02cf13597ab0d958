"""Heartbeats and losses of devices that cannot reach the log, over MQTT."""
