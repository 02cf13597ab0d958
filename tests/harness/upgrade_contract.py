"""What must hold when a decider's behaviour changes on a log that lives, for every decider and on any log.

The older logic of a decider passes over something that today's decides, and decides something later, so that the id of
what is missing is not beyond the newest in the log.
The stories are in :mod:`tests.harness.upgrade_stories`; the tests bring the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tests.harness.memory_log import MemorySnapshots
from tests.harness.upgrade_stories import POOL, Case, Event, Test, ticks
from tests.harness.waiting import until

from steepest.clock import SystemClock
from steepest.events.received import ID
from steepest.invariants.audit import check_with
from steepest.invariants.checkers.decision_ids import DecisionIds
from steepest.invariants.verdict import Status
from steepest.log.base import Log, NewRecord, Record, TopicPartition
from steepest.policies.decider import Decision
from steepest.policies.deciders import CLUSTER_DECIDERS, STREAM_DECIDERS
from steepest.runtime.decode import new_record, received
from steepest.runtime.layout import Layout
from steepest.runtime.recovery.log_identity import open_partitions
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service

CLUSTER = TopicPartition("cluster")
LAYOUT = Layout(pools=(POOL,), loss_partitions=1)


def older(kind: Any, passed_over: Test) -> Any:
    """The decider as it was before: of another logic, and without some of what it decides today."""

    def step(self: Any, *given: Any) -> Sequence[Any]:
        made = kind.step(self, *given)
        for one in made:
            if not isinstance(one, Decision) and passed_over(one):
                self.reconsider(one)
        return [one for one in made if not passed_over(one.event if isinstance(one, Decision) else one)]

    return type(f"Older{kind.__name__}", (kind,), {"logic": kind.logic - 1, "step": step})


class Decides:
    """A process with one decider."""

    def __init__(self, kind: Any, log: Log) -> None:
        self._kind = kind
        self._log = log
        self._stop = asyncio.Event()
        clustered = kind.name in CLUSTER_DECIDERS
        service = Service(
            name=kind.name,
            cluster_deciders=(kind,) if clustered else (),
            stream_deciders=() if clustered else (kind,),
        )
        self.runtime = Runtime([service], log=log, layout=LAYOUT, snapshots=MemorySnapshots(), clock=SystemClock())
        self._task = asyncio.create_task(self.runtime.run(self._stop))

    @property
    def awaits(self) -> Sequence[Any]:
        """What a decider of the pool has decided and not read back."""
        deciders = self.runtime.pools[POOL].engine.deciders
        return [one for decider in deciders for one in decider.state.unread]

    async def caught_up(self) -> None:
        """Wait until it has decided about all that is there, and read what it decided."""
        await until(lambda: self._task.done() or self.runtime.health.is_ready(), "the process to be ready")
        if self._kind.name in CLUSTER_DECIDERS:
            end = await self._log.end(CLUSTER)
            await until(
                lambda: self._task.done() or (self.runtime.pools[POOL].view.position >= end and not self.awaits)
            )

    async def stop(self) -> None:
        """SIGTERM."""
        self._stop.set()
        await self._task
        await self._log.close()


async def upgrade(case: Case, open_log: Callable[[], Log], *, rolling: bool) -> None:
    """Run the older logic, then today's; while the older one still runs, where it is ``rolling``.

    Raises:
        AssertionError: What today's logic wants never comes, it waits for what never comes, or it decides twice.
    """
    kind = {**CLUSTER_DECIDERS, **STREAM_DECIDERS}[case.decider]
    to = CLUSTER if case.decider in CLUSTER_DECIDERS else TopicPartition(kind.topic)
    log = open_log()
    await open_partitions(log, LAYOUT, SystemClock())
    old = Decides(older(kind, case.passed_over), open_log())
    await log.append(_records(to, case.before))
    await _appears(log, case.decided)
    if not rolling:
        await old.stop()
    assert not await _stands(log, case.passed_over)

    new = Decides(kind, open_log())
    await new.caught_up()
    for record in _records(to, case.later):
        await log.append([record])
    await _appears(log, case.wanted)
    if rolling:
        await old.stop()
        await log.append(_records(to, ticks(1_000, 1_002)))
    await new.caught_up()
    await new.stop()

    end = await log.end(CLUSTER)
    again = Decides(kind, open_log())
    await again.caught_up()
    await again.stop()
    ids = [one.headers[ID] for one in await _read(log) if ID in one.headers]
    assert await log.end(CLUSTER) == end, "the same logic decided something again"
    assert rolling or len(ids) == len(dict.fromkeys(ids))
    (chain,) = check_with([DecisionIds], [received(one) for one in await _read(log)])
    assert chain.status is Status.HOLDS, chain.message
    await log.close()


def _records(to: TopicPartition, events: Sequence[Event]) -> list[NewRecord]:
    timed = [one if isinstance(one, tuple) else (1, one) for one in events]
    return [new_record(to, POOL, event, at_ms) for at_ms, event in timed]


async def _read(log: Log) -> list[Record]:
    end = await log.end(CLUSTER)
    found: list[Record] = []
    reader = log.reader({CLUSTER: 0})
    while len(found) < end:
        found += await reader.poll()
    await reader.close()
    return found


async def _stands(log: Log, wanted: Test) -> bool:
    return any(wanted(received(one).event) for one in await _read(log))


async def _appears(log: Log, wanted: Test) -> None:
    """Wait until it stands in the log."""
    reader = log.reader({CLUSTER: 0})
    seen: list[Any] = []
    try:
        async with asyncio.timeout(20):
            while not any(map(wanted, seen)):
                seen = [received(one).event for one in await reader.poll()]
    finally:
        await reader.close()
