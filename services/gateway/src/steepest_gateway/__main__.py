"""``python -m steepest_gateway``."""

from steepest_gateway import main

main()
