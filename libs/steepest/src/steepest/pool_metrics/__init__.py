"""What is so in a pool, and what became of its plans, as metrics: an effector that folds the view and acts on nothing."""
