"""The services, a module each: what it reads, what it writes, and how it is put together."""
