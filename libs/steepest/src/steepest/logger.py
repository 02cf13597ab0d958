"""The loggers of all modules. The first message imports structlog, so a command that logs nothing does not pay for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

_setup: list[Callable[[], None]] = []
_lock = threading.Lock()


class Logger:
    """Logs an event and its fields through structlog, whose methods of the same names these are."""

    def debug(self, event: str, /, **fields: object) -> None:  # noqa: D102 - see above
        self._log("debug", event, fields)

    def info(self, event: str, /, **fields: object) -> None:  # noqa: D102 - see above
        self._log("info", event, fields)

    def warning(self, event: str, /, **fields: object) -> None:  # noqa: D102 - see above
        self._log("warning", event, fields)

    def error(self, event: str, /, **fields: object) -> None:  # noqa: D102 - see above
        self._log("error", event, fields)

    def critical(self, event: str, /, **fields: object) -> None:  # noqa: D102 - see above
        self._log("critical", event, fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """Log an error with the traceback of the exception that is being handled."""
        self._log("exception", event, fields)

    def _log(self, level: str, event: str, fields: dict[str, object]) -> None:
        import structlog  # noqa: PLC0415 - see the module

        with _lock:
            while _setup:
                _setup.pop()()
        getattr(structlog.get_logger(), level)(event, **fields)


def set_up(setup: Callable[[], None]) -> None:
    """Call this before the first message; immediately where structlog is imported already. The last call counts."""
    _setup.clear()
    if "structlog" in sys.modules:
        setup()
    else:
        _setup.append(setup)
