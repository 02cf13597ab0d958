"""Names in the order of keys that change: one look-up and one bisection a change, no scan.

It must never know what the keys mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sortedcontainers import SortedList

Key = tuple[Any, ...]


class Order:
    """Names by rising key. A key ends with its name, so no two are equal."""

    def __init__(self) -> None:
        self._keys: dict[str, Key] = {}
        self._sorted: SortedList[Key] = SortedList()

    def __iter__(self) -> Iterator[str]:
        return (key[-1] for key in self._sorted)

    def __contains__(self, name: str) -> bool:
        return name in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def of(self, name: str) -> Key | None:
        """The key of a name; None if it has none."""
        return self._keys.get(name)

    def first(self) -> Key | None:
        """The smallest key."""
        return self._sorted[0] if self._keys else None

    def last(self) -> str | None:
        """The name with the largest key."""
        return self._sorted[-1][-1] if self._keys else None

    def put(self, key: Key) -> None:
        """The name at the end of ``key`` has this key from here on."""
        name = key[-1]
        before = self._keys.get(name)
        if before == key:
            return
        if before is not None:
            self._sorted.remove(before)
        self._keys[name] = key
        self._sorted.add(key)

    def drop(self, name: str) -> None:
        """Remove a name from the order, if it is there."""
        if (key := self._keys.pop(name, None)) is not None:
            self._sorted.remove(key)
