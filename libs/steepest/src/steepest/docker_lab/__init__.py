"""Docker engines and images of one's own, for demos, experiments and tests."""
