"""``python -m steepest_placer``."""

from steepest_placer import main

main()
