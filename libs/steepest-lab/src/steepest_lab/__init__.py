"""Experiments with Steepest: simulators, baselines, published experiments, the demo and its jobs."""
