"""What is tried out and measured with Steepest: simulators, baselines, published experiments, the demo and its jobs."""
