"""The one projection of a pool's log. Everybody folds with it: deciders, effectors, the command line, the simulator."""
