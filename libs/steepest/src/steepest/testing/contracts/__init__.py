"""What every implementation of a port must do, as suites that each implementation inherits."""
