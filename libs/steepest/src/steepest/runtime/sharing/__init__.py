"""Partitions that the replicas of a service share: who works on which, and how one is handed over."""
