"""What must hold when a decider's behaviour changes on a log that lives, for every decider and on any log.

The older logic of a decider passes over something that today's decides, and decides something later, so that the id of
what is missing is not beyond the newest in the log. It owns the stories; the tests bring the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest.events.loss import JobWatched, LossReported
from steepest.events.parameters import FlowConParameters, PoolParameters, SpeConParameters, SteepestParameters
from steepest.events.received import ID
from steepest.events.registry import READS
from steepest.invariants.audit import check_with
from steepest.invariants.checkers.decision_ids import DecisionIds
from steepest.invariants.verdict import Status
from steepest.log.base import Log, NewRecord, Record, TopicPartition
from steepest.log.snapshot_store import MemorySnapshots
from steepest.policies.decider import Decision
from steepest.policies.deciders import CLUSTER_DECIDERS, STREAM_DECIDERS
from steepest.policies.named import under
from steepest.runtime.decode import new_record, received
from steepest.runtime.layout import Layout
from steepest.runtime.recovery.log_identity import open_partitions
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service
from steepest.testing.scenarios.folded_pool import category, grown, joined, placement, requested, submitted
from steepest.testing.waiting import until

POOL = "default"
CLUSTER = TopicPartition("cluster")
LAYOUT = Layout(pools=(POOL,), loss_partitions=1)
LATER_TICKS = 40

Event = Any
Test = Callable[[Any], bool]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A story in which the older logic passes over something.

    Attributes:
        decider: Which one is upgraded.
        passed_over: What only today's logic decides.
        before: What the log holds before the upgrade, beside decisions.
        decided: What both decide, after what was passed over.
        later: What comes after the upgrade.
        wanted: What must stand in the log then.
    """

    decider: str
    passed_over: Test
    before: Sequence[Event]
    decided: Test
    later: Sequence[Event]
    wanted: Test


def is_a(kind: type, **values: Any) -> Test:
    """Whether an event is of a type and has these values."""
    return lambda event: (
        isinstance(event, kind) and all(getattr(event, name) == value for name, value in values.items())
    )


def older(kind: Any, passed_over: Test) -> Any:
    """The decider as it was before: of another logic, and without some of what it decides today."""

    def step(self: Any, *given: Any) -> Sequence[Any]:
        made = kind.step(self, *given)
        for one in made:
            if not isinstance(one, Decision) and passed_over(one):
                self.reconsider(one)
        return [one for one in made if not passed_over(one.event if isinstance(one, Decision) else one)]

    return type(f"Older{kind.__name__}", (kind,), {"logic": kind.logic - 1, "step": step})


# --- stories ---------------------------------------------------------------------------------------------------------


def running(job: str, node: str, **spec: Any) -> list[Event]:
    """The job runs on the node; ``spec`` goes to its description."""
    plan = placement(job, node)
    begun = c.StepBegun(plan=plan.plan, step=c.Step.START, attempt=1, job=job, incarnation=1, node=node)
    placed = c.JobPlaced(plan=plan.plan, attempt=1, job=job, incarnation=1, node=node)
    return [submitted(job, **spec), plan, begun, placed]


def ended(job: str, node: str, exit_status: int) -> c.ReplicaStopped:
    """Its process is over."""
    return c.ReplicaStopped(job=job, replica=0, incarnation=1, node=node, exit_status=exit_status)


def ticks(first: int, last: int) -> list[Event]:
    """The pool's clock, a second each."""
    return [c.Tick(counted_ms=1_000 * second) for second in range(first, last)]


TICKS = ticks(100, 100 + LATER_TICKS)
CONVERGED = c.Category.CONVERGED
FLOWCON = c.PoolConfigured(reads=2, parameters=PoolParameters(flowcon=FlowConParameters(on=True, interval_ms=5_000)))
STEEPEST = c.PoolConfigured(reads=READS, parameters=PoolParameters(steepest=SteepestParameters(on=True)))
DRAGON = c.PoolConfigured(reads=READS, parameters=under("dragon-fixed", PoolParameters()))
SPECON = SpeConParameters(interval_ms=1_000)


def beat(node: str, at_ms: int, *states: ReplicaState) -> NodeHeartbeat:
    """A node that runs, or ran, job a."""
    replicas = tuple(
        ReplicaReport(job="a", incarnation=1, state=state, exit_status=None if state is ReplicaState.RUNNING else 0)
        for state in states
    )
    return NodeHeartbeat(node=node, pool=POOL, at_ms=at_ms, capacity=Resources(1_000), replicas=replicas)


def losses(values: Sequence[float], first_s: int) -> list[tuple[int, Event]]:
    """Two reports in each second, both of its value."""
    return [
        (1_000 * (first_s + second) + half, LossReported(job="a", incarnation=1, value=value))
        for second, value in enumerate(values)
        for half in (100, 600)
    ]


def used(node: str, jobs: str, second: int) -> c.NodeUsage:
    """The node's jobs share it, and do a step a second."""
    return c.NodeUsage(
        node=node,
        used=Resources(1_000),
        jobs=dict.fromkeys(jobs, 1_000 // len(jobs)),
        progress=tuple(
            c.ReplicaProgress(job=job, incarnation=1, step=second, cpu_ms=1_000 * second // len(jobs)) for job in jobs
        ),
    )


def shared(first_s: int, last_s: int) -> list[Event]:
    """Two nodes of two jobs each, from one second to another."""
    return [
        event
        for second, tick in zip(range(first_s, last_s), ticks(first_s, last_s), strict=True)
        for event in (tick, used("n1", "ab", second), used("n2", "de", second))
    ]


def is_move_of(job: str) -> Test:
    """Whether an event decides where a converged job goes, or that it stays."""
    return lambda event: isinstance(event, c.MigrationPlanned | c.StayDecided) and event.job == job


LENGTHS = (("a", "n1", 100), ("b", "n1", 1_000), ("d", "n2", 100), ("e", "n2", 1_000))
"""Jobs of one node of which the shorter one is worth more."""

CASES = {
    "placer, a job's end": Case(
        decider="placer",
        passed_over=is_a(c.JobEnded, job="a"),
        before=[joined("n1"), *running("a", "n1"), ended("a", "n1", 0), submitted("b")],
        decided=is_a(c.PlacementPlanned, job="b"),
        later=TICKS,
        wanted=is_a(c.JobEnded, job="a"),
    ),
    "placer, a retry": Case(
        decider="placer",
        passed_over=is_a(c.RetryPlanned, job="a"),
        before=[
            joined("n1"),
            *running("a", "n1"),
            c.ReplicaStopped(job="a", replica=0, incarnation=1, node="n1"),
            submitted("b"),
        ],
        decided=is_a(c.PlacementPlanned, job="b"),
        later=TICKS,
        wanted=is_a(c.PlacementPlanned, job="a", incarnation=1),
    ),
    "placer, an admission": Case(
        decider="placer",
        passed_over=is_a(c.JobAdmitted, job="a"),
        before=[joined("n1"), submitted("a", 5_000), submitted("b")],
        decided=is_a(c.PlacementPlanned, job="b"),
        later=TICKS,
        wanted=is_a(c.JobAdmitted, job="a"),
    ),
    "placer, a place": Case(
        decider="placer",
        passed_over=is_a(c.PlacementPlanned, job="a"),
        before=[joined("n1"), submitted("a"), submitted("b")],
        decided=is_a(c.PlacementPlanned, job="b"),
        later=TICKS,
        wanted=is_a(c.PlacementPlanned, job="a"),
    ),
    "goal-watcher": Case(
        decider="goal-watcher",
        passed_over=is_a(c.GoalReached, job="a"),
        before=[
            c.PoolConfigured(reads=READS),
            joined("n1"),
            *(event for job in "ab" for event in running(job, "n1", goal=c.Goal(below=2.0))),
            *(grown(job) for job in "ab"),
        ],
        decided=is_a(c.GoalReached, job="b"),
        later=[event for tick in TICKS for event in (tick, grown("a"))],
        wanted=is_a(c.GoalReached, job="a"),
    ),
    "worker-monitor-silence": Case(
        decider="worker-monitor-silence",
        passed_over=is_a(c.NodeLost, silent_ms=16_000),
        before=[joined("n1"), *ticks(1, 3), joined("n2"), c.Tick(counted_ms=16_000), c.Tick(counted_ms=17_000)],
        decided=is_a(c.NodeLost, node="n1", silent_ms=17_000),
        later=TICKS,
        wanted=is_a(c.NodeLost, node="n2"),
    ),
    "node-scorer": Case(
        decider="node-scorer",
        passed_over=is_move_of("a"),
        before=[
            joined("n1"),
            joined("n2"),
            *(event for job in "abcde" for event in running(job, "n1")),
            category("a", CONVERGED),
            requested("a"),
            category("b", CONVERGED),
            requested("b"),
        ],
        decided=is_move_of("b"),
        later=[event for tick in TICKS for event in (tick, requested("a"))],
        wanted=is_move_of("a"),
    ),
    "rebalancer": Case(
        decider="rebalancer",
        passed_over=is_a(c.MigrationPlanned, job="d"),
        before=[
            *(joined(node) for node in ("n1", "n2", "n3")),
            *(event for job in "abcd" for event in running(job, "n1")),
            *(grown(job) for job in "abcd"),
            *(
                event
                for job, tick in zip("abcd", ticks(1, 5), strict=True)
                for event in (tick, category(job, CONVERGED))
            ),
            c.Tick(counted_ms=10_000),
        ],
        decided=is_a(c.MigrationPlanned, job="c"),
        later=TICKS,
        wanted=is_a(c.MigrationPlanned, job="d"),
    ),
    "gang-scheduler": Case(
        decider="gang-scheduler",
        passed_over=is_a(c.PlacementPlanned, job="a"),
        before=[DRAGON, joined("n1"), submitted("a"), submitted("b")],
        decided=is_a(c.PlacementPlanned, job="b"),
        later=TICKS,
        wanted=is_a(c.PlacementPlanned, job="a"),
    ),
    "limit-planner": Case(
        decider="limit-planner",
        passed_over=is_a(c.LimitsPlanned, node="n1"),
        before=[FLOWCON, joined("n1"), joined("n2"), *running("a", "n1"), *running("b", "n2")],
        decided=is_a(c.LimitsPlanned, node="n2"),
        later=TICKS,
        wanted=is_a(c.LimitsPlanned, node="n1"),
    ),
    "steepest-planner": Case(
        decider="steepest-planner",
        passed_over=is_a(c.LimitsPlanned, node="n1"),
        before=[
            STEEPEST,
            joined("n1"),
            joined("n2"),
            *(event for job, node, steps in LENGTHS for event in running(job, node, steps=steps)),
            *shared(1, 6),
        ],
        decided=is_a(c.LimitsPlanned, node="n2"),
        later=shared(6, 6 + LATER_TICKS),
        wanted=is_a(c.LimitsPlanned, node="n1"),
    ),
    "worker-monitor": Case(
        decider="worker-monitor",
        passed_over=is_a(c.ReplicaStopped, job="a"),
        before=[
            (1_000, beat("n1", 1_000, ReplicaState.RUNNING)),
            (2_000, beat("n1", 2_000, ReplicaState.EXITED)),
            (3_000, beat("n2", 3_000)),
        ],
        decided=is_a(c.NodeUsage, node="n2"),
        later=[(1_000 * second, beat("n1", 1_000 * second, ReplicaState.EXITED)) for second in range(4, 8)],
        wanted=is_a(c.ReplicaStopped, job="a"),
    ),
    "categorizer": Case(
        decider="categorizer",
        passed_over=is_a(c.CategoryChanged, job="a"),
        before=[
            (900, JobWatched(job="a", pool=POOL, incarnation=1, metric="loss", parameters=SPECON)),
            *losses((1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0), 1),
        ],
        decided=is_a(c.GrowthMeasured, job="a", interval=5),
        later=losses((1.0, 1.0, 1.0), 8),
        wanted=is_a(c.CategoryChanged, job="a", after=CONVERGED),
    ),
}
"""By what the older logic passes over; a test holds them to all deciders that there are."""

BESIDE_EACH_OTHER = [name for name, case in CASES.items() if case.decider in CLUSTER_DECIDERS]
"""Those of deciders of which two may run at the same time; another topic's partition has one reader at a time."""


# --- the upgrade -----------------------------------------------------------------------------------------------------


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
