"""``python -m steepest_categorizer``."""

from steepest_categorizer import main

main()
