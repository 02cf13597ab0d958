"""``python -m steepest_resizer``."""

from steepest_resizer import main

main()
