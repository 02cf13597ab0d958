"""What is announced of an incarnation before its reports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from steepest.clock import Clock
from steepest.collector.feed import WATCH_AGAIN_S, Feed, Follow
from steepest.collector.folders import Batch
from steepest.events import cluster as c
from steepest.events.loss import JobWatched, LossReported
from steepest.events.received import Received
from steepest.policies.specon.categorizer import Categorizer
from steepest.training_logs.records import LossRecord, Split


class Hand(Clock):
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def now_ms(self) -> int:
        """The wall clock."""
        return round(1_000 * self.now_s)

    def monotonic(self) -> float:
        """Seconds since whenever."""
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        """Nothing waits here."""


async def test_a_job_is_announced_every_day() -> None:
    """Before its next report: one of which nothing was heard for long may be forgotten."""
    clock = Hand()
    sent: list[msgspec.Struct] = []

    async def send(*events: msgspec.Struct, **_: Any) -> None:
        sent.extend(events)

    async def batches() -> AsyncIterator[Batch]:
        for number, later_s in enumerate((0.0, WATCH_AGAIN_S - 1, 1.0, 1.0)):
            clock.now_s += later_s
            record = LossRecord(1, 1, 0, number, False, None, "loss", 0.5, "train", "keras")  # noqa: FBT003
            yield Batch("events", [record], [number])

    follow = Follow(job="a", incarnation=1, spec=c.JobSpec(command=("train",)))
    await Feed(follow, "default", c.PoolConfigured, clock, send).carry_folder(batches())

    assert [type(event) for event in sent] == [
        JobWatched,
        LossReported,
        LossReported,
        JobWatched,
        LossReported,
        LossReported,
    ]


async def test_a_held_out_metric_that_the_user_names_counts_as_what_is_trained_on() -> None:
    """The job is judged by it: its growth is measured, and a trial reaches its rungs by it."""
    sent: list[Any] = []

    async def send(*events: Any, **_: Any) -> None:
        sent.extend(events)

    async def batches() -> AsyncIterator[Batch]:
        for step in range(1, 31):
            values: list[tuple[str, Split]] = [("loss", "train")]
            if step % 10 == 0:
                values.append(("val_loss", "eval"))
            for name, split in values:
                record = LossRecord(1, 1, 0, step, False, None, name, 1 / step, split, "keras")  # noqa: FBT003
                yield Batch("events", [record], [2 * step + (split == "eval")])

    rungs = c.Rungs(first=10)
    follow = Follow(job="a", incarnation=1, spec=c.JobSpec(command=("train",), metric="val_loss", rungs=rungs))
    await Feed(follow, "default", c.PoolConfigured, Hand(), send).carry_folder(batches())
    categorizer = Categorizer()
    decided = [
        decision.event
        for offset, event in enumerate(sent)
        for decision in categorizer.step(Received(event=event, topic="loss", partition=0, offset=offset, at_ms=offset))
    ]

    reached = [(one.rung, one.value) for one in decided if isinstance(one, c.RungReached)]
    assert reached == [(0, 1 / 10), (1, 1 / 30)]
