"""First placement, retries and the end of jobs."""
