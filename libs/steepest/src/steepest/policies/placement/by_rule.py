"""What is kept up to date for each rule of nodes, of those rules that were asked for last.

It owns which rules these are. It must never know what is kept for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from steepest.events.common import NodeRule

T = TypeVar("T")


class ByRule(Generic[T]):
    """By rule, what is kept for it; the one that was not asked for the longest goes where there are too many."""

    def __init__(self, most: int) -> None:
        """Keep it for at most ``most`` rules."""
        self._most = most
        self._kept: dict[NodeRule, T] = {}

    def of(self, rule: NodeRule, make: Callable[[NodeRule], T]) -> T:
        """What is kept for a rule, made where nothing is."""
        found = self._kept.pop(rule, None)
        if found is None:
            found = make(rule)
            if len(self._kept) >= self._most:
                del self._kept[next(iter(self._kept))]
        self._kept[rule] = found
        return found

    def items(self) -> Iterable[tuple[NodeRule, T]]:
        """All that is kept, with its rules."""
        return self._kept.items()
