"""FlowCon (the thesis's Algorithms 1–2): CPU limits of running jobs by the efficiency with which they still grow."""
