"""Parts that tests of Steepest and of its extensions share: a contract suite a port, builders, text scenarios."""
