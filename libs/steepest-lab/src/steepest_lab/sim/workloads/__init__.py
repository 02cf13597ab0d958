"""Workloads: readers of traces, a file a format, and generators of arrivals."""
