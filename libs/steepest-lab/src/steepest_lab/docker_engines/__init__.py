"""Private Docker engines and images, for demos, experiments and tests."""
