"""The stories of upgrades: for every decider, a log in which its older logic passes over something.

It owns the stories. What must come of them is in :mod:`tests.harness.upgrade_contract`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from tests.harness.scenarios.folded_pool import category, grown, joined, placement, requested, submitted

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest.events.loss import JobWatched, LossReported
from steepest.events.parameters import (
    FlowConParameters,
    PickyManParameters,
    PoolParameters,
    PreemptionLimits,
    QueueParameters,
    SpeConParameters,
    SteepestParameters,
)
from steepest.policies.deciders import CLUSTER_DECIDERS
from steepest.policies.named import under

LATER_TICKS = 40
POOL = "default"

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


def running(job: str, node: str, **spec: Any) -> list[Event]:
    """The job runs on the node; ``spec`` goes to its description."""
    plan = placement(job, node)
    begun = c.StepBegun(plan=plan.plan, step=c.Step.START, attempt=1, job=job, incarnation=1, node=node)
    placed = c.JobPlaced(plan=plan.plan, attempt=1, job=job, incarnation=1, node=node)
    return [submitted(job, **spec), plan, begun, placed]


def surplus(job: str, node: str) -> list[Event]:
    """Four workers run on the node, and all but one may leave."""
    workers = c.Role(name="worker", replicas=4, min=1, requests=Resources(cpu_m=100), may_leave=True)
    nodes = (node,) * 4
    plan = placement(job, *nodes)
    begun = c.StepBegun(plan=plan.plan, step=c.Step.START, attempt=1, job=job, incarnation=1, node=node, nodes=nodes)
    placed = c.JobPlaced(plan=plan.plan, attempt=1, job=job, incarnation=1, node=node, nodes=nodes, sizes=(4,))
    return [submitted(job, roles=(workers,), success=c.SuccessRule.CHIEF), plan, begun, placed]


def ended(job: str, node: str, exit_status: int) -> c.ReplicaStopped:
    """Its process is over."""
    return c.ReplicaStopped(job=job, replica=0, incarnation=1, node=node, exit_status=exit_status)


def ticks(first: int, last: int) -> list[Event]:
    """The pool's clock, a second each."""
    return [c.Tick(counted_ms=1_000 * second) for second in range(first, last)]


def unused(*jobs: str) -> Event:
    """The jobs use no CPU."""
    return c.NodeUsage(node="n1", used=Resources(), jobs=dict.fromkeys(jobs, 0))


TICKS = ticks(100, 100 + LATER_TICKS)
CONVERGED = c.Category.CONVERGED
FLOWCON = c.PoolConfigured(parameters=PoolParameters(flowcon=FlowConParameters(on=True, interval_ms=5_000)))
STEEPEST = c.PoolConfigured(parameters=PoolParameters(steepest=SteepestParameters(on=True)))
DRAGON = c.PoolConfigured(parameters=under("dragon-fixed", PoolParameters()))
SLOW = c.PoolConfigured(parameters=PoolParameters(tick_ms=10_000))
SPECON = SpeConParameters(interval_ms=1_000)
PICKYMAN = c.PoolConfigured(
    parameters=PoolParameters(
        pickyman=PickyManParameters(on=True),
        queueing=QueueParameters(policy="predicted"),
        preemption=PreemptionLimits(min_run_ms=0),
    ),
)


def beat(node: str, at_ms: int, *states: ReplicaState) -> NodeHeartbeat:
    """A node that runs, or ran, job a."""
    replicas = tuple(
        ReplicaReport(job="a", incarnation=1, state=state, exit_status=None if state is ReplicaState.RUNNING else 0)
        for state in states
    )
    return NodeHeartbeat(node=node, pool=POOL, at_ms=at_ms, capacity=Resources(1_000), replicas=replicas)


def reads(job: str, node: str, first: int, last: int) -> list[tuple[int, Event]]:
    """The job reads its data set of 8 MB in 8 s and pauses for 2 s, from one epoch to another."""
    found: list[tuple[int, Event]] = []
    for second in range(10 * first, 10 * last):
        count = 1_000_000 * (second // 10 * 8 + min(second % 10, 8))
        replica = ReplicaReport(job=job, incarnation=1, state=ReplicaState.RUNNING, read_bytes=count)
        at_ms = 1_000 * (second + 1)
        found.append((at_ms, msgspec.structs.replace(beat(node, at_ms), replicas=(replica,), takes_jobs=True)))
    return found


def losses(values: Sequence[float], first_s: int) -> list[tuple[int, Event]]:
    """Two reports in each second, both of its value."""
    return [
        (1_000 * (first_s + second) + half, LossReported(job="a", incarnation=1, value=value))
        for second, value in enumerate(values)
        for half in (100, 600)
    ]


def remaining(job: str, ms: int, incarnation: int = 0) -> c.RunTimePredicted:
    """The job is predicted to have this much left."""
    left = c.PredictedSpan(ms, ms, ms)
    return c.RunTimePredicted(
        job=job, incarnation=incarnation, method=c.PredictionMethod.TIME_MODEL, total=left, remaining=left
    )


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
            c.PoolConfigured(),
            joined("n1"),
            *(event for job in "ab" for event in running(job, "n1", goal=c.Goal(below=2.0))),
            *(grown(job) for job in "ab"),
        ],
        decided=is_a(c.GoalReached, job="b"),
        later=[event for tick in TICKS for event in (tick, grown("a"))],
        wanted=is_a(c.GoalReached, job="a"),
    ),
    "trial-judge": Case(
        decider="trial-judge",
        passed_over=is_a(c.TrialJudged, job="a"),
        before=[
            c.PoolConfigured(),
            joined("n1"),
            *(event for job in "ab" for event in running(job, "n1", array="t", rungs=c.Rungs(first=10))),
            *(c.RungReached(job=job, incarnation=1, rung=0, at=10, value=1.0) for job in "ab"),
        ],
        decided=is_a(c.TrialJudged, job="b"),
        later=[
            c.JobChangeRequested(job="a", request="urgent", priority=1),
            *TICKS,
        ],
        wanted=is_a(c.TrialJudged, job="a"),
    ),
    "watcher": Case(
        decider="watcher",
        passed_over=is_a(c.FindingOpened, job="a"),
        before=[
            c.PoolConfigured(parameters=PoolParameters(tick_ms=100_000)),
            joined("n1"),
            *(event for job in "ab" for event in running(job, "n1")),
            *(
                event
                for second in range(1, 400, 100)
                for event in (c.Tick(counted_ms=1_000 * second), unused("a", "b"))
            ),
        ],
        decided=is_a(c.FindingOpened, job="b"),
        later=[event for tick in ticks(400, 400 + LATER_TICKS) for event in (tick, unused("a"))],
        wanted=is_a(c.FindingOpened, job="a"),
    ),
    "worker-monitor-silence": Case(
        decider="worker-monitor-silence",
        passed_over=is_a(c.NodeLost, silent_ms=16_000),
        before=[SLOW, joined("n1"), *ticks(1, 3), joined("n2"), c.Tick(counted_ms=16_000), c.Tick(counted_ms=17_000)],
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
            SLOW,
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
    "gang-scheduler, surplus workers": Case(
        decider="gang-scheduler",
        passed_over=is_a(c.TransitionPlanned, job="a", leaving=(2, 3)),
        before=[
            DRAGON,
            joined("n1", 400),
            *surplus("a", "n1"),
            submitted("b", 200),
            *ticks(1, 40),
            joined("n2", 100),
            submitted("c"),
        ],
        decided=is_a(c.PlacementPlanned, job="c"),
        later=TICKS,
        wanted=is_a(c.TransitionPlanned, job="a", leaving=(2, 3)),
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
    "device-planner": Case(
        decider="device-planner",
        passed_over=is_a(c.PlacementPlanned, job="a"),
        before=[
            STEEPEST,
            c.NodeJoined(node="n1", capacity=Resources(cpu_m=1_000, gpus=2)),
            submitted("a", requests=Resources(cpu_m=100, gpus=1)),
            submitted("b", requests=Resources(cpu_m=100, gpus=1)),
            c.JobAdmitted(job="a", request="request-a"),
            c.JobAdmitted(job="b", request="request-b"),
            *ticks(1, 3),
        ],
        decided=is_a(c.PlacementPlanned, job="b"),
        later=TICKS,
        wanted=is_a(c.PlacementPlanned, job="a"),
    ),
    "predictor": Case(
        decider="predictor",
        passed_over=is_a(c.RunTimePredicted, job="a"),
        before=[PICKYMAN, joined("n1"), submitted("a"), submitted("b")],
        decided=is_a(c.RunTimePredicted, job="b"),
        later=TICKS,
        wanted=is_a(c.RunTimePredicted, job="a"),
    ),
    "preemption-planner": Case(
        decider="preemption-planner",
        passed_over=is_a(c.TransitionPlanned, job="a"),
        before=[
            PICKYMAN,
            joined("n1", 200),
            joined("n2", 200),
            *(event for job, node in (("a", "n1"), ("b", "n2")) for event in running(job, node, cpu_m=200)),
            *(remaining(job, 900_000, incarnation=1) for job in "ab"),
            submitted("d", 200),
            submitted("e", 200),
            *(remaining(job, 1_000) for job in "de"),
            *ticks(1, 3),
        ],
        decided=is_a(c.TransitionPlanned, job="b"),
        later=TICKS,
        wanted=is_a(c.TransitionPlanned, job="a"),
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
    "profiler": Case(
        decider="profiler",
        passed_over=is_a(c.EpochMeasured, job="a"),
        before=[*reads("a", "n1", 0, 4), *reads("b", "n2", 40, 44)],
        decided=is_a(c.EpochMeasured, job="b"),
        later=reads("a", "n1", 4, 6),
        wanted=is_a(c.EpochMeasured, job="a"),
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
