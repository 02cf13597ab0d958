"""A private storage server that is short of bandwidth, and data sets for it, for demos, experiments and tests."""
