"""Bounds the number of series of a label whose values users or nodes choose."""

from __future__ import annotations

OTHER = "other"


class BoundedLabel:
    """The first values keep their names; all further ones are ``other`` together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, None] = {}

    def __call__(self, value: str) -> str:
        """The value, or ``other``."""
        if value not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known[value] = None
        return value
