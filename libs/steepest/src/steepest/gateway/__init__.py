"""The HTTP API, its live events, and the page: a pool's log, read as it grows and shown to programs and people."""
