"""The logging of a process on standard error: one JSON object a line for programs, lines to read for people."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, TextIO, cast

from steepest.logger import Logger
from steepest.standard_streams import LossyStream

if TYPE_CHECKING:
    from stamina.instrumentation import RetryDetails

_log = Logger()


def configure_logging(level: int = logging.INFO, *, for_people: bool = False) -> None:
    """Set up structlog for this process. A terminal always gets lines for people, in colour."""
    import stamina  # noqa: PLC0415 - it takes long to import, and few commands log
    import structlog  # noqa: PLC0415 - likewise

    is_terminal = sys.stderr.isatty()
    console = structlog.dev.ConsoleRenderer(colors=is_terminal)
    renderer = console if is_terminal or for_people else structlog.processors.JSONRenderer(sort_keys=True)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S" if for_people else "iso", utc=not for_people),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", LossyStream(sys.stderr))),
    )
    stamina.instrumentation.set_on_retry_hooks((_waits,))


def _waits(details: RetryDetails) -> None:
    _log.warning("the log takes or gives nothing", error=str(details.caused_by), next_try_s=round(details.wait_for, 1))
