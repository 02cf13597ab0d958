"""The ordered log on Apache Kafka."""
