"""``python -m steepest_gang_scheduler``."""

from steepest_gang_scheduler import main

main()
