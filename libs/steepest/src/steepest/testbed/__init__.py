"""Published experiments with real trainings on a real Docker engine, at a smaller time scale."""
