"""SpeCon (the thesis's Algorithms 3–5): categorize jobs by growth, move those that converge, rebalance the rest."""
