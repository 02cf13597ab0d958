"""What is known of the nodes of a cluster: what a pool has of them, and what pods use there."""
