"""The latest changes, newest first, for readers that update only the changed items.

It must never know what the things are, nor who reads.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

KEPT = 10_000
"""Things that are remembered; a reader who has missed more looks at everything."""


class Changes(Generic[T]):
    """Things in the order in which they changed last.

    Attributes:
        now: How many changes there were. A reader keeps it, and asks for what came since.
    """

    def __init__(self, kept: int = KEPT) -> None:
        """Remember the newest ``kept`` changes."""
        self.now = 0
        self._kept = kept
        self._newest: OrderedDict[T, int] = OrderedDict()
        self._dropped = 0

    def note(self, thing: T) -> None:
        """Note that an item has changed or was removed."""
        self.now += 1
        self._newest[thing] = self.now
        self._newest.move_to_end(thing)
        if len(self._newest) > self._kept:
            _, self._dropped = self._newest.popitem(last=False)

    def since(self, before: int) -> Sequence[T] | None:
        """The items changed since that number of changes; None if they are no longer remembered."""
        if before >= self.now:  # mostly: a reader looks far more often than things change
            return ()
        if before < self._dropped:
            return None
        found = []
        for thing, at in reversed(self._newest.items()):
            if at <= before:
                break
            found.append(thing)
        return found
