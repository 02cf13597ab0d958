"""Traces of a pool, from the headers of its log, for a collector of OpenTelemetry."""
