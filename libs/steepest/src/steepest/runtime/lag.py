"""How far a loop is behind the ends of its partitions. On a broker each look is a request, so looks are rare."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from steepest.log.base import Log, TopicPartition

LOOK_EVERY_S = 1.0
"""Lag is for people and probes, who do not look more often."""


class LagMeter:
    """The lag of one loop."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._looked_at = float("-inf")
        self._ends: dict[TopicPartition, int] = {}

    async def lag(self, positions: Mapping[TopicPartition, int]) -> int:
        """Records behind these positions, by ends that are at most ``LOOK_EVERY_S`` old."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= LOOK_EVERY_S or positions.keys() != self._ends.keys():
            self._ends = {at: await self._log.end(at) for at in positions}
            self._looked_at = now
        return sum(max(0, self._ends[at] - position) for at, position in positions.items())
