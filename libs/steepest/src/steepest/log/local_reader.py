"""The reader of logs in memory and in files.

It owns fairness between partitions, waiting and waking. It must never know where records are stored: cursors do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from steepest.errors import LogUnavailableError, SteepestError
from steepest.log.base import Record, TopicPartition


class Bell:
    """Wakes readers that wait for a partition to grow. All in one event loop."""

    def __init__(self) -> None:
        # Dicts, because they are ordered: readers are woken in the same order in every run.
        self._waiting: dict[TopicPartition, dict[asyncio.Event, None]] = {}

    def subscribe(self, at: TopicPartition, event: asyncio.Event) -> None:
        """Set this event whenever the partition may have grown."""
        self._waiting.setdefault(at, {})[event] = None

    def unsubscribe(self, at: TopicPartition, event: asyncio.Event) -> None:
        """Stop setting this event."""
        self._waiting.get(at, {}).pop(event, None)

    def ring(self, at: TopicPartition) -> None:
        """Signal that the partition may have grown."""
        for event in self._waiting.get(at, ()):
            event.set()

    def ring_all(self) -> None:
        """Signal that any partition may have grown."""
        for at in self._waiting:
            self.ring(at)


class Cursor(Protocol):
    """A position in one partition."""

    async def seek(self) -> None:
        """Prepare for ``take``; may be cancelled and called again at any time.

        Raises:
            LogEpochError: The partition ends before the position.
            LogUnavailableError: Nothing can be read now.
        """

    def take(self, limit: int) -> Sequence[Record]:
        """Return up to ``limit`` records that exist now, and advance; if it raises, the position has not moved.

        Raises:
            LogEpochError: The partition was replaced.
            LogUnavailableError: Nothing can be read now.
            RecordingError: The record at the position cannot be read, now or later.
        """

    def close(self) -> None:
        """Release all resources."""


class LocalReader:
    """A reader over cursors; implements ``steepest.log.base.Reader``.

    Partitions take turns (round robin): the one after the last that was read is first at the next poll, so a busy partition
    delays another one by at most one poll per partition.
    """

    def __init__(
        self, cursors: Mapping[TopicPartition, Cursor], bell: Bell, *, watch: Callable[[], float] | None = None
    ) -> None:
        """Read from these cursors.

        Args:
            cursors: A cursor for each partition.
            bell: Rings when one of them may have grown.
            watch: Called before the first wait, for logs that other processes write to: from then on the bell rings for
                their writes too, and it gives the period in seconds at which to look all the same. None: do not look.
        """
        self._cursors = cursors
        self._turns = deque(cursors)
        self._bell = bell
        self._watch = watch
        self._recheck_s: float | None = None
        self._grown = asyncio.Event()
        self._closed = False
        for at in cursors:
            bell.subscribe(at, self._grown)

    async def poll(self, *, max_records: int = 1000, timeout_s: float = 1.0) -> Sequence[Record]:
        """See ``steepest.log.base.Reader.poll``. Positions move only after its last await, so cancelling loses nothing."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        # A reader that is far behind never waits: without this, no other task of the event loop would run.
        await asyncio.sleep(0)
        while True:
            self._grown.clear()
            await self._seek()
            taken = self._take(max_records)
            left_s = deadline - loop.time()
            if taken or left_s <= 0:
                return taken
            if self._watch is not None and self._recheck_s is None:
                self._recheck_s = self._watch()
                continue  # what was written before the watch began has rung no bell
            await self._wait(left_s)

    async def close(self) -> None:
        """See ``steepest.log.base.Reader.close``."""
        self._closed = True
        for at, cursor in self._cursors.items():
            self._bell.unsubscribe(at, self._grown)
            cursor.close()

    async def _seek(self) -> None:
        if self._closed:
            raise LogUnavailableError("this reader was closed", hint="Make a new one from the log.")
        for at in self._turns:
            await self._cursors[at].seek()

    def _take(self, max_records: int) -> list[Record]:
        taken: list[Record] = []
        for at in tuple(self._turns):
            self._turns.rotate(-1)
            try:
                taken.extend(self._cursors[at].take(max_records - len(taken)))
            except SteepestError:
                if not taken:
                    raise
                break  # its position has not moved: the error is raised again at its next turn
            if len(taken) >= max_records:
                break
        return taken

    async def _wait(self, left_s: float) -> None:
        wait_s = left_s if self._recheck_s is None else min(left_s, self._recheck_s)
        timer = asyncio.get_running_loop().call_later(wait_s, self._grown.set)  # a third of what asyncio.timeout costs
        try:
            await self._grown.wait()
        finally:
            timer.cancel()
