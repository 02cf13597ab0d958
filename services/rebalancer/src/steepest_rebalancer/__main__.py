"""``python -m steepest_rebalancer``."""

from steepest_rebalancer import main

main()
