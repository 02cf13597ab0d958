"""``python -m steepest_admission_webhook``."""

from steepest_admission_webhook import main

main()
