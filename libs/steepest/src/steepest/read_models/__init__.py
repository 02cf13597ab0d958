"""Views of a pool for programs and people: rows of jobs and nodes, timelines, explanations, comparisons. Pure."""
