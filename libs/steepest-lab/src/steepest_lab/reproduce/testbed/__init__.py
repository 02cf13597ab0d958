"""These experiments with real trainings, on Docker engines or emulated nodes, at a smaller time scale."""
