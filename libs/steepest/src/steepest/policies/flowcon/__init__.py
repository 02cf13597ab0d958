"""FlowCon (Algorithms 1–2 of the thesis): sets CPU limits of running jobs by their growth efficiency."""
