"""The state of a pool and the outcomes of its plans as metrics: an effector that folds the view and acts on nothing."""
