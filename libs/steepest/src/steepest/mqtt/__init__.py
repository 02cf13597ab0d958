"""The edge: heartbeats and losses of devices that reach no log, over MQTT into ours."""
