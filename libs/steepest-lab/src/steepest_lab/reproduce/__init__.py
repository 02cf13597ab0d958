"""Published experiments again: simulated or with real trainings, compared with the published figures and claims."""
