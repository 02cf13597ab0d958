"""``python -m steepest``."""

from steepest.cli.main import main

main()
