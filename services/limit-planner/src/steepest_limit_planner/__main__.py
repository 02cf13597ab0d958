"""``python -m steepest_limit_planner``."""

from steepest_limit_planner import main

main()
