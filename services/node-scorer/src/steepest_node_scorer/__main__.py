"""``python -m steepest_node_scorer``."""

from steepest_node_scorer import main

main()
