"""Ordered, partitioned logs behind one small interface: memory, files (which are recordings), and more to come."""
