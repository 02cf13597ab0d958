"""The same jobs under fair sharing, in a virtual pool: when each of them would end."""
