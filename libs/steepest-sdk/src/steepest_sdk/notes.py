"""Owns what the SDK tells people, on standard error; it must never be the reason why a training stops."""

from __future__ import annotations

import contextlib
import sys


def tell(message: str) -> None:
    """Writes one line to standard error; a closed or broken one is no error."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"steepest_sdk: {message}\n")
        sys.stderr.flush()


class Teller:
    """Tells each kind of trouble once, however often it comes back, so that a full disk does not flood the log."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def once(self, kind: str, message: str) -> None:
        """Tells the first trouble of a kind and is silent about the later ones."""
        if kind not in self._told:
            self._told.add(kind)
            tell(f"{message} (told once; training goes on)")
