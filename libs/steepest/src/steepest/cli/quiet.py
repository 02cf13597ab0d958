"""The logs of libraries while a command runs: to standard error, and no more than a person needs."""

from __future__ import annotations

from steepest.logger import set_up


def quiet(level: str = "ERROR") -> None:
    """Log from this level on; without this, structlog would print to standard output, among what programs read."""

    def configure() -> None:
        import logging

        from steepest.app.logging import configure_logging

        configure_logging(logging.getLevelNamesMapping()[level], for_people=True)

    set_up(configure)
