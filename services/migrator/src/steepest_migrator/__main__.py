"""``python -m steepest_migrator``."""

from steepest_migrator import main

main()
