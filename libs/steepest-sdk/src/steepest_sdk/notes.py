"""Logs the SDK's messages to standard error; it must never be the reason why a training stops."""

from __future__ import annotations

import contextlib
import sys


def warn(message: str) -> None:
    """Writes one line to standard error; ignores a closed or broken one."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"steepest_sdk: {message}\n")
        sys.stderr.flush()


class OnceWarner:
    """Logs each kind of problem once, so that a recurring one such as a full disk does not flood the log."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def once(self, kind: str, message: str) -> None:
        """Logs the first problem of a kind and ignores later ones."""
        if kind not in self._told:
            self._told.add(kind)
            warn(f"{message} (logged once; training continues)")
