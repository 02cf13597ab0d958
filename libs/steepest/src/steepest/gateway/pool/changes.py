"""The messages to a live page: a picture of the pool, and afterwards its changes, batch by batch.

It owns what is in a batch, how many batches are kept, and where one who was away goes on. It must never know who listens.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from steepest.read_models.decisions import DecisionEntry
from steepest.read_models.job_rows import JobRow
from steepest.read_models.node_rows import NodeRow

KEPT_BYTES = 8 * 2**20
"""Batches that are kept. A listener that is further behind begins with a picture again."""


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits: its position from 1, what for, and the counted time until it may start."""

    job: str
    queue: str
    priority: int
    position: int
    waits_for: str
    reason: str
    start_ms: int | None = None


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of the whole pool, also of jobs that are not sent."""

    jobs: int
    running: int
    waiting: int
    ended: int
    moves: int
    dead_letters: int


class PoolChanges(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A batch.

    Attributes:
        offset: Everything before it in the pool's log is known by this batch and those before.
        at_ms: Time of the newest record.
        whole: Whether it is a picture: a reader forgets what it knew before.
        up: Whether a system runs on the pool.
        queue: The whole queue; None: as before.
    """

    pool: str
    offset: int
    at_ms: int
    whole: bool = False
    up: bool = False
    jobs: Sequence[JobRow] = ()
    nodes: Sequence[NodeRow] = ()
    decisions: Sequence[DecisionEntry] = ()
    queue: Sequence[QueueRow] | None = None
    totals: Totals | None = None


class ChangeBatch(msgspec.Struct, frozen=True):
    """Changes as they are sent: those of the records from ``start`` to before ``offset``."""

    start: int
    offset: int
    data: bytes


class Ring:
    """The newest batches, for any number of listeners."""

    def __init__(self) -> None:
        self._batches: deque[ChangeBatch] = deque()
        self._bytes = 0
        self._news = asyncio.Event()

    def add(self, batch: ChangeBatch) -> None:
        """Keep a batch, and wake all who wait."""
        self._batches.append(batch)
        self._bytes += len(batch.data)
        while self._bytes > KEPT_BYTES and len(self._batches) > 1:
            self._bytes -= len(self._batches.popleft().data)
        news, self._news = self._news, asyncio.Event()
        news.set()

    def since(self, offset: int) -> Iterable[ChangeBatch] | None:
        """The batches from an offset on that is not the newest; None where one of them is gone."""
        if not self._batches or offset < self._batches[0].start:
            return None
        return [batch for batch in self._batches if batch.offset > offset]

    async def news(self) -> None:
        """Wait for the next batch."""
        await self._news.wait()
