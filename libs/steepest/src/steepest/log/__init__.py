"""Ordered, partitioned logs behind one small interface: in memory, in files (which are recordings), and on Kafka."""
