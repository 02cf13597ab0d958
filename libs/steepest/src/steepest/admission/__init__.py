"""Gates users' Jobs for API servers that cannot do it themselves: a webhook that says what to put into a Job."""
