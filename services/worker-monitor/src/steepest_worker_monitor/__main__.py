"""``python -m steepest_worker_monitor``."""

from steepest_worker_monitor import main

main()
