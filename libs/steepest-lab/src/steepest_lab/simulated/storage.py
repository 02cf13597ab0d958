"""The storage that all nodes share: each transfer gets an equal part of its bandwidth, and at most the rate of its node.

It owns the transfers under way and when they end. It must never know what is transferred.
"""

from __future__ import annotations

from collections.abc import Callable

from steepest_lab.simulated.timeline import Timeline, Timer

LEFT_MIB = 1e-9
"""Rounding error of a finished transfer."""


class Transfer:
    """A transfer to or from the storage."""

    __slots__ = ("_storage", "done", "left_mib", "most_mib_s", "rate_mib_s")

    def __init__(self, storage: SharedStorage, mib: float, most_mib_s: float, done: Callable[[], None]) -> None:
        self._storage = storage
        self.left_mib = mib
        self.most_mib_s = most_mib_s
        self.done = done
        self.rate_mib_s = 0.0

    def cancel(self) -> None:
        """Give it up; does nothing if it is over."""
        self._storage.leave(self)


class SharedStorage:
    """A volume with one bandwidth for all. A transfer that begins or ends costs O(transfers under way)."""

    def __init__(self, timeline: Timeline, mib_s: float) -> None:
        """A volume that moves ``mib_s`` MiB a second, to and from all nodes together."""
        self._timeline = timeline
        self._mib_s = mib_s
        self._under_way: dict[Transfer, None] = {}
        self._since_s = timeline.now_s()
        self._timer: Timer | None = None

    def transfer(self, mib: float, most_mib_s: float, done: Callable[[], None]) -> Transfer:
        """Begin a transfer.

        Args:
            mib: How much.
            most_mib_s: The rate of its node.
            done: Called when it is over.
        """
        self._advance()
        begun = Transfer(self, mib, most_mib_s, done)
        self._under_way[begun] = None
        self._share()
        return begun

    def leave(self, transfer: Transfer) -> None:
        """A transfer is given up; does nothing if it is over."""
        if transfer in self._under_way:
            self._advance()
            del self._under_way[transfer]
            self._share()

    def _advance(self) -> None:
        now_s = self._timeline.now_s()
        for one in self._under_way:
            one.left_mib -= (now_s - self._since_s) * one.rate_mib_s
        self._since_s = now_s

    def _share(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._under_way:
            return
        part_mib_s = self._mib_s / len(self._under_way)
        for one in self._under_way:
            one.rate_mib_s = min(one.most_mib_s, part_mib_s)
        ends_s = min(max(one.left_mib, 0.0) / one.rate_mib_s for one in self._under_way)
        self._timer = self._timeline.call_at(self._since_s + ends_s, self._end)

    def _end(self) -> None:
        self._timer = None
        self._advance()
        # The first one ends in any case: what rounding leaves of it may take no time that a clock can show.
        first = min(self._under_way, key=lambda one: one.left_mib / one.rate_mib_s)
        over = [one for one in self._under_way if one is first or one.left_mib <= LEFT_MIB]
        for one in over:
            del self._under_way[one]
        self._share()
        for one in over:
            one.done()
