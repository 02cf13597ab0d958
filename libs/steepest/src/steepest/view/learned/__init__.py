"""What a view learns from measurements, so that every decider predicts the same from it."""
