"""The reader that logs of this machine share: whose turn it is, and how long to wait.

It owns fairness between partitions, waiting and waking. It must never know where records are kept: a cursor does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from steepest.errors import LogUnavailableError, SteepestError
from steepest.log.base import Record, TopicPartition


class Bell:
    """Wakes those who wait for a partition to grow. All in one event loop."""

    def __init__(self) -> None:
        # Ordered, so that those who wait are woken in the same order in every run.
        self._waiting: dict[TopicPartition, dict[asyncio.Event, None]] = {}

    def subscribe(self, at: TopicPartition, event: asyncio.Event) -> None:
        """Set this event whenever the partition may have grown."""
        self._waiting.setdefault(at, {})[event] = None

    def unsubscribe(self, at: TopicPartition, event: asyncio.Event) -> None:
        """Leave this event alone from now on."""
        self._waiting.get(at, {}).pop(event, None)

    def ring(self, at: TopicPartition) -> None:
        """Say that the partition may have grown."""
        for event in self._waiting.get(at, ()):
            event.set()

    def ring_all(self) -> None:
        """Say that any partition may have grown."""
        for at in self._waiting:
            self.ring(at)


class Cursor(Protocol):
    """A position in one partition."""

    async def seek(self) -> None:
        """Make ready to take; may be cancelled and called again at any time.

        Raises:
            LogEpochError: The partition ends before the position.
            LogUnavailableError: Nothing can be read now.
        """

    def take(self, limit: int) -> Sequence[Record]:
        """Up to so many records that are there now, moving on past them; when it raises, the position has not moved.

        Raises:
            LogEpochError: The partition is another one than before.
            LogUnavailableError: Nothing can be read now.
            RecordingError: What stands at the position can never be read.
        """

    def close(self) -> None:
        """Let go."""


class LocalReader:
    """A reader over cursors; fulfils ``steepest.log.base.Reader``.

    Partitions take turns: the one after the last that was read is first at the next poll, so that a busy one delays
    another by one poll for each partition at most.
    """

    def __init__(self, cursors: Mapping[TopicPartition, Cursor], bell: Bell, *, recheck_s: float | None = None) -> None:
        """Read from these cursors.

        Args:
            cursors: A cursor for each partition.
            bell: Rings when one of them may have grown.
            recheck_s: How often to look without the bell, for logs whose bell does not hear everybody; None for never.
        """
        self._cursors = cursors
        self._turns = deque(cursors)
        self._bell = bell
        self._recheck_s = recheck_s
        self._grown = asyncio.Event()
        self._closed = False
        for at in cursors:
            bell.subscribe(at, self._grown)

    async def poll(self, *, max_records: int = 1000, timeout_s: float = 1.0) -> Sequence[Record]:
        """See ``steepest.log.base.Reader.poll``. Positions move in its last step only, after the last await."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        # A reader that is far behind never has to wait: without this, nobody else in the event loop would have a turn.
        await asyncio.sleep(0)
        while True:
            self._grown.clear()
            await self._seek()
            taken = self._take(max_records)
            left_s = deadline - loop.time()
            if taken or left_s <= 0:
                return taken
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
                break  # its position has not moved: the error comes again when it is its turn
            if len(taken) >= max_records:
                break
        return taken

    async def _wait(self, left_s: float) -> None:
        wait_s = left_s if self._recheck_s is None else min(left_s, self._recheck_s)
        try:
            async with asyncio.timeout(wait_s):
                await self._grown.wait()
        except TimeoutError:
            pass
