"""What is known of the nodes of a cluster and the pods there: what a pool has of them, and what pods use."""
