"""A run beside fair sharing of the same jobs: pairs that were really run, or a simulation from the recording."""
