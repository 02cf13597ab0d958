"""What the processes of a service have in common that runs once on each node."""
