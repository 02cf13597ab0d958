"""Published experiments with real trainings on a real Docker engine, on a smaller scale of time."""
