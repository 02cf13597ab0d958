"""The common part of the processes of a service that runs once on each node."""
