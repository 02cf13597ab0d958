"""``python -m steepest_preemption_planner``."""

from steepest_preemption_planner import main

main()
