"""Recordings of several pools: each pool's part of what a decider of another topic decided is compared."""

from __future__ import annotations

import asyncio

from tests.harness.memory_log import MemoryLog, MemorySnapshots
from tests.harness.waiting import until

from steepest.clock import SystemClock
from steepest.events.loss import JobWatched, LossReported
from steepest.events.parameters import SpeConParameters
from steepest.events.received import SEQUENCE, SOURCE
from steepest.log.base import NewRecord, TopicPartition
from steepest.policies.specon.categorizer import Categorizer
from steepest.replay.replay import Replay
from steepest.runtime.decode import new_record
from steepest.runtime.layout import Layout
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service

LAYOUT = Layout(pools=("blue", "green"), loss_partitions=1)
LOSS = TopicPartition("loss")


def reports(job: str, pool: str) -> list[NewRecord]:
    """A job that has converged."""
    watched = JobWatched(
        job=job, pool=pool, incarnation=1, metric="loss", parameters=SpeConParameters(interval_ms=1_000)
    )
    events = [watched, *(LossReported(job=job, incarnation=1, step=step, value=1.0) for step in range(1, 20))]
    return [
        new_record(LOSS, job, event, 500 * number, {SOURCE: job, SEQUENCE: str(number)})
        for number, event in enumerate(events)
    ]


async def test_decisions_about_one_partition_in_several_pools_are_compared() -> None:
    """The pools' logs are read one after the other, and their decisions were made in turn."""
    log = MemoryLog(LAYOUT.partitions())
    runtime = Runtime(
        [Service(name="categorizer", stream_deciders=(Categorizer,))],
        log=log,
        layout=LAYOUT,
        snapshots=MemorySnapshots(),
        clock=SystemClock(),
    )
    stop = asyncio.Event()
    running = asyncio.create_task(runtime.run(stop))
    await until(runtime.health.is_ready)
    for pair in zip(reports("a", "blue"), reports("b", "green"), strict=True):
        await log.append(pair)
    end = await log.end(LOSS)
    await until(lambda: runtime.health.loops["categorizer:loss"].position >= end)
    stop.set()
    await running
    ends = [await log.end(LAYOUT.of_pool(pool)) for pool in LAYOUT.pools]
    report = await Replay(log).run()
    await log.close()

    assert min(ends) > 5
    assert report.decisions == sum(ends) - len(ends)
    assert report.first_difference is None
    assert report.not_yet_recorded == 0
