"""What every port that answers HTTP shares: how many connections it holds, for how long, and under which names."""
