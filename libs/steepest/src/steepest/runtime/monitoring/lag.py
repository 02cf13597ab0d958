"""How far a loop is behind the ends of its partitions. On a broker each look is a request, so looks are rare."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping

from steepest.errors import LogUnavailableError
from steepest.log.base import Log, TopicPartition

LOOK_EVERY_S = 1.0
"""Lag is for people and probes, who do not look more often."""


class LagMeter:
    """The lag of one loop, without waiting: a reading returns what the reading before it found."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._looked_at = float("-inf")
        self._looking: asyncio.Task[dict[TopicPartition, int]] | None = None
        self._ends: dict[TopicPartition, int] = {}

    async def lag(self, positions: Mapping[TopicPartition, int]) -> int:
        """Records behind these positions, by the newest ends that a look has found.

        Raises:
            LogUnavailableError: The first look at these partitions got no answer. Later ones are repeated: that a log
                fails is for those to tell who read and append.
        """
        now = asyncio.get_running_loop().time()
        if positions.keys() != self._ends.keys():
            self.close()
            self._ends = await self._look(positions)
            self._looked_at = now
        elif self._looking is None and now - self._looked_at >= LOOK_EVERY_S:
            self._looking = asyncio.create_task(self._look(self._ends))
            self._looked_at = now
        elif self._looking is not None and self._looking.done():
            looked, self._looking = self._looking, None
            with contextlib.suppress(LogUnavailableError):
                self._ends = looked.result()
        return sum(max(0, self._ends[at] - position) for at, position in positions.items())

    def close(self) -> None:
        """Look no more."""
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            looking.add_done_callback(
                lambda task: task.cancelled() or task.exception()
            )  # retrieve the error of a task that has no reader

    async def _look(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {at: await self._log.end(at) for at in partitions}
