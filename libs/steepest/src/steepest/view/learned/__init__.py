"""Models that a view learns from measurements, so that all deciders make the same predictions."""
