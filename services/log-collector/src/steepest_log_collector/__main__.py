"""``python -m steepest_log_collector``."""

from steepest_log_collector import main

main()
