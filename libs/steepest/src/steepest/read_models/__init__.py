"""What programs and people are shown of a pool: rows of jobs and nodes, stories, explanations, comparisons. Pure."""
