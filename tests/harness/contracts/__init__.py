"""The contracts of the ports, as suites that each implementation inherits."""
