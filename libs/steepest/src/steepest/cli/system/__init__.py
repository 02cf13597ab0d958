"""The system as a process: which nodes it gets, how it runs in the foreground, how it is stopped."""
