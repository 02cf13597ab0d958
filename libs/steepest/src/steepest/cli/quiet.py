"""What libraries log while a command runs: to standard error, and no more than a person has to know."""

from __future__ import annotations

import logging

from steepest.app.logging import configure_logging


def quiet(level: int = logging.ERROR) -> None:
    """Log from this level on; without this, structlog would print to standard output, among what programs read."""
    configure_logging(level)
