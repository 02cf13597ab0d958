"""The node-local half of the adapter: what pods of one node print and use, read from the node's own files."""
