"""The one projection of a pool's log. All readers share it: deciders, effectors, the command line, the simulator."""
