"""What holds for the view on every log, valid or not."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import event as note
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.harness.examples import scaled
from tests.harness.scenarios.folded_pool import (
    BECAUSE,
    EPOCH,
    FoldedPool,
    checkpoint,
    joined,
    migration,
    placement,
    submitted,
    success,
    used,
)
from tests.harness.view_promises import check_view

from steepest.events import cluster as c
from steepest.events.common import LARGEST, CheckpointMode, Resources
from steepest.events.parameters import BalanceRule, FlowConParameters, PoolParameters, SpeConParameters
from steepest.events.received import ID, PREVIOUS
from steepest.policies.decider import EVERY, Readers, fold_and_decide
from steepest.policies.deciders import CLUSTER_DECIDERS
from steepest.sagas.next_action import begin, next_action
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Plan

DECIDERS = tuple(CLUSTER_DECIDERS.values())
JOBS = st.sampled_from(["a", "b", "c", "d"])
NODES = st.sampled_from(["w1", "w2", "w3", "w4"])
PLANS = st.sampled_from(["p", "q"])
SMALL = st.integers(0, 4)
SIZES = SMALL | st.just(LARGEST)
STATUS = st.sampled_from([None, 0, 1, 85, -9])
CHECKPOINTS = st.none() | st.builds(checkpoint, st.integers(0, 300), st.integers(1, 3))
CATEGORIES = st.sampled_from(c.Category)
MODES = st.sampled_from(CheckpointMode)
AMOUNTS = st.builds(
    Resources, cpu_m=st.sampled_from([0, 100, 250, 400, 900]), memory_mib=st.sampled_from([0, 0, 512]), gpus=st.just(0)
)
SPECS = st.builds(
    c.JobSpec,
    command=st.just(("train",)),
    requests=AMOUNTS,
    replicas=st.sampled_from([1, 1, 1, 1, 0, 2]),
    checkpoint_mode=st.none() | MODES,
    retries=st.integers(0, 2),
    first_node=st.none() | NODES,
    goal=st.none() | st.builds(c.Goal, below=st.just(2.0)),
)
PARAMETERS = st.builds(
    PoolParameters,
    specon=st.builds(
        SpeConParameters,
        weight_cc=st.sampled_from([1.0, 3.0]),
        guard=st.booleans(),
        balance_rule=st.sampled_from(BalanceRule),
    ),
    flowcon=st.builds(FlowConParameters, on=st.booleans(), interval_ms=st.sampled_from([1, 7_000, 60_000])),
    placement=st.sampled_from(["spread", "flowcon2", "none of ours"]),
)
LIMITS = st.none() | st.sampled_from([10, 99])
PROGRESS = st.builds(
    c.ReplicaProgress,
    job=JOBS,
    incarnation=SMALL,
    replica=st.integers(0, 1),
    step=st.none() | SIZES,
    total=st.none() | SIZES,
    epoch=st.none() | st.floats(0, 4),
    epochs=st.none() | st.floats(0, 4),
    cpu_ms=st.none() | SIZES,
)

NONSENSE: st.SearchStrategy[Any] = st.one_of(
    st.builds(c.Tick, counted_ms=st.integers(0, 60_000) | st.just(LARGEST)),
    st.builds(c.PoolConfigured, parameters=PARAMETERS),
    st.builds(
        c.LimitsPlanned,
        plan=PLANS,
        node=NODES,
        limits=st.lists(st.builds(c.JobLimit, JOBS, SMALL, st.sampled_from(c.GrowthList), LIMITS), max_size=3).map(
            tuple
        ),
        because=st.just(c.LimitsBecause(rule="")),
    ),
    st.builds(c.LimitsApplied, plan=PLANS, node=NODES, job=JOBS, incarnation=SMALL, cpu_m=LIMITS),
    st.builds(
        c.LimitsRefused,
        plan=PLANS,
        node=NODES,
        job=JOBS,
        incarnation=SMALL,
        code=st.just("x"),
        definite=st.booleans(),
        message=st.just(""),
    ),
    st.builds(c.NodeLost, node=NODES, silent_ms=SIZES),
    st.builds(c.NodeGone, node=NODES),
    st.builds(used, NODES, st.integers(0, 900)),
    st.builds(c.NodeUsage, node=NODES, used=st.just(Resources()), progress=st.lists(PROGRESS, max_size=3).map(tuple)),
    st.builds(c.ReplicaStarted, job=JOBS, incarnation=SMALL, node=NODES),
    st.builds(c.CheckpointModeDeclared, job=JOBS, incarnation=SMALL, mode=MODES, node=st.none() | NODES),
    st.builds(
        c.CheckpointVerified,
        job=JOBS,
        incarnation=SMALL,
        checkpoint=CHECKPOINTS.filter(bool),
        node=st.none() | NODES,
    ),
    st.builds(c.ReplicaStopped, job=JOBS, incarnation=SMALL, node=NODES, exit_status=STATUS, checkpoint=CHECKPOINTS),
    st.builds(c.JobEnded, job=JOBS, outcome=st.sampled_from(c.Outcome)),
    st.builds(c.JobSubmitted, job=JOBS, request=st.sampled_from(["r1", "r2"]), spec=SPECS),
    st.builds(c.JobCancelRequested, job=JOBS, request=st.just("r")),
    st.builds(c.JobAdmitted, job=JOBS, request=st.sampled_from(["r1", "r2"])),
    st.builds(c.JobRejected, job=JOBS, request=st.sampled_from(["r1", "r2"]), reason=st.just("no")),
    st.builds(
        c.GrowthMeasured,
        job=JOBS,
        interval=SIZES,
        total=st.just(1.0),
        count=st.just(1),
        largest=st.just(1.0),
        first_ms=SIZES,
        last_ms=SIZES,
        category=CATEGORIES,
    ),
    st.builds(c.GoalReached, job=JOBS, incarnation=SMALL, reason=st.just("enough"), value=st.just(0.0)),
    st.builds(
        c.EpochMeasured,
        job=JOBS,
        incarnation=SMALL,
        epoch=SMALL.map(lambda number: number + 1),
        epoch_ms=st.integers(1, 9_000),
        epoch_bytes=st.integers(1, 1_000_000),
        read_bytes=SIZES,
        ended_ms=SIZES,
        load_ms=st.none() | SIZES,
    ),
    st.builds(
        c.RunTimePredicted,
        job=JOBS,
        incarnation=SMALL,
        method=st.sampled_from(c.PredictionMethod),
        remaining=st.none() | st.builds(c.PredictedSpan, SIZES, SIZES, SIZES),
    ),
    st.builds(c.PromiseRevised, job=JOBS, tier=SMALL, fair_in_ms=SIZES, due_in_ms=st.none() | SIZES),
    st.builds(c.OverheadPredicted, plan=PLANS, job=JOBS, incarnation=SMALL, kind=st.sampled_from(c.Overhead)),
    st.builds(
        c.OverheadMeasured, plan=PLANS, job=JOBS, incarnation=SMALL, kind=st.sampled_from(c.Overhead), measured_ms=SIZES
    ),
    st.builds(c.CategoryChanged, job=JOBS, before=CATEGORIES, after=CATEGORIES, growth=st.just(0.0)),
    st.builds(c.ReallocationRequested, job=JOBS, growth=st.just(0.0), interval=SIZES),
    st.builds(
        c.PlacementPlanned,
        plan=PLANS,
        job=JOBS,
        incarnation=SMALL,
        nodes=st.lists(NODES, max_size=2).map(tuple),
        because=st.just(BECAUSE),
    ),
    st.builds(
        c.MigrationPlanned,
        plan=PLANS,
        job=JOBS,
        incarnation=SMALL,
        source=NODES,
        target=NODES,
        kind=st.sampled_from(c.MoveKind),
        because=st.just(BECAUSE),
    ),
    st.builds(c.StayDecided, job=JOBS, incarnation=SMALL, node=NODES, because=st.just(BECAUSE)),
    st.builds(
        c.RetryPlanned, job=JOBS, incarnation=SMALL, charged=st.booleans(), not_before_ms=SIZES, reason=st.just("")
    ),
    st.builds(
        c.StepBegun, plan=PLANS, step=st.sampled_from(c.Step), attempt=SMALL, job=JOBS, incarnation=SMALL, node=NODES
    ),
    st.builds(
        c.StepFailed,
        plan=PLANS,
        step=st.sampled_from(c.Step),
        attempt=SMALL,
        job=JOBS,
        code=st.sampled_from(["refused", "ended"]),
        definite=st.booleans(),
        message=st.just(""),
    ),
    st.builds(
        c.CheckpointSaved, plan=PLANS, attempt=SMALL, job=JOBS, incarnation=SMALL, checkpoint=CHECKPOINTS.filter(bool)
    ),
    st.builds(c.JobStopped, plan=PLANS, attempt=SMALL, job=JOBS, incarnation=SMALL, exit_status=STATUS),
    st.builds(c.JobPlaced, plan=PLANS, attempt=SMALL, job=JOBS, incarnation=SMALL, node=NODES),
    st.builds(c.JobResumed, plan=PLANS, attempt=SMALL, job=JOBS, incarnation=SMALL),
    st.builds(
        c.MigrationFinished, plan=PLANS, job=JOBS, target=NODES, steps_lost=SIZES, took_ms=SIZES, paused_ms=SIZES
    ),
    st.builds(c.MigrationFailed, plan=PLANS, job=JOBS, code=st.just("x"), message=st.just("")),
    st.builds(c.PlanAbandoned, plan=PLANS, job=JOBS, code=st.just("x")),
)
"""Every event but those that stop a reader, with few names, so that they meet; sense is in it only by chance."""

HEADERS: st.SearchStrategy[dict[str, str]] = st.just({}) | st.builds(
    lambda offset, index, before: (
        {ID: f"placer/{EPOCH}/cluster/0/{offset}/{index}"} | ({PREVIOUS: before} if before else {})
    ),
    SMALL,
    SMALL,
    st.sampled_from(["", f"placer/{EPOCH}/cluster/0/1/1"]),
)


class AnyLog(RuleBasedStateMachine):
    """A log of random events, and sometimes of the valid next one; all promises hold all the time.

    Beside the view goes a second one that was restored from a snapshot somewhere on the way, each with its own deciders:
    both must come to the same. Those of the second are asked about every record, also about what they do not read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pool = FoldedPool()
        self.shrank = False
        self.deciders = [kind() for kind in DECIDERS]
        self.readers = Readers(self.deciders)
        self.restart()
        self.restored = False

    @initialize()
    def begin(self) -> None:
        """Some nodes, a job that runs, one that is moved and one that waits."""
        self.feed(joined("w1", 1_000, 1_024))
        self.feed(joined("w2", 1_000, 1_024))
        self.feed(joined("w3", 500))
        for job, node in (("a", "w1"), ("b", "w2")):
            self.feed(submitted(job, request="r1"))
            self.feed(placement(job, node, plan=f"place-{job}"))
            while (plan := self.pool.view.plan_of(self.pool.job(job))) is not None:
                begun = begin(plan, self.pool.job(job))
                self.feed(begun)
                self.feed(success(begun, self.pool.job(job)))
        self.feed(migration("a", "w1", "w2", plan="move-a"))
        self.feed(submitted("c", request="r1"))

    def feed(self, event: c.ClusterEvent, headers: dict[str, str] | None = None) -> None:
        """Fold an event into both views, and ask all deciders of both."""
        received = self.pool.append(event, headers)
        for decider in self.again_deciders:
            decider.reads = EVERY
        counts, made = fold_and_decide(self.pool.view, self.readers, received)
        counts_again, made_again = fold_and_decide(self.again, Readers(self.again_deciders), received)
        assert counts == counts_again
        assert [[*events] for events in made] == [[*events] for events in made_again]
        assert [one.state for one in self.deciders] == [one.state for one in self.again_deciders]

    @rule()
    def restart(self) -> None:
        """From here on the second view and its deciders are those restored from snapshots of the first."""
        self.again = ClusterView.restore(self.pool.view.snapshot())
        self.restored = True
        self.again_deciders = [kind(copy(decider.state)) for kind, decider in zip(DECIDERS, self.deciders, strict=True)]

    @rule(event=NONSENSE, headers=HEADERS)
    def nonsense(self, event: c.ClusterEvent, headers: dict[str, str]) -> None:
        """Any event, sometimes delivered twice."""
        self.feed(event, headers)

    @rule(node=NODES, capacity=AMOUNTS, takes_jobs=st.sampled_from([True, True, False]))
    def resize(self, node: str, capacity: Resources, *, takes_jobs: bool) -> None:
        """A node joins, or becomes another size, or one that only reports."""
        found = self.pool.view.nodes.get(node)
        self.shrank |= found is not None and not found.capacity.fits(capacity.of_a_node)
        self.feed(c.NodeJoined(node=node, capacity=capacity, takes_jobs=takes_jobs))

    @rule(data=st.data(), kind=st.sampled_from(["submit", "place", "move", "retry", "decide"]))
    def sense(self, data: st.DataObject, kind: str) -> None:
        """What could come next for some job, most of it valid."""
        job = self.pool.view.jobs.get(data.draw(JOBS))
        if job is None:
            name = data.draw(JOBS)
            self.feed(submitted(name, request="r1"))
            return
        name, incarnation, plan = job.name, job.incarnation, f"plan-{len(self.pool.log)}"
        match kind:
            case "place":
                self.feed(
                    c.PlacementPlanned(
                        plan=plan, job=name, incarnation=incarnation, nodes=(data.draw(NODES),), because=BECAUSE
                    )
                )
            case "move":
                self.feed(
                    c.MigrationPlanned(
                        plan=plan,
                        job=name,
                        incarnation=incarnation,
                        source=job.node or "w1",
                        target=data.draw(NODES),
                        kind=data.draw(st.sampled_from(c.MoveKind)),
                        because=BECAUSE,
                    )
                )
            case "retry":
                self.feed(c.RetryPlanned(job=name, incarnation=incarnation, charged=False, not_before_ms=0, reason=""))
            case "decide":
                self.feed(c.StayDecided(job=name, incarnation=incarnation, node="w1", because=BECAUSE))

    @rule(data=st.data(), times=st.integers(1, 6))
    def steps(self, data: st.DataObject, times: int) -> None:
        """The migrator performs the next step, with success or failure, or takes a step over."""
        for _ in range(times):
            plan = self.some_plan(data)
            if plan is not None:
                self.step(data, plan)

    def step(self, data: st.DataObject, plan: Plan) -> None:
        """One of these."""
        job = self.pool.job(plan.job)
        action = begin(plan, job) if plan.begun else next_action(self.pool.view, plan, self.pool.now_ms)
        if action is None:
            return
        note(type(action).__name__)
        self.feed(action)
        if isinstance(action, c.StepBegun):
            note(f"{plan.kind} {plan.heading} {action.step}")
            end = data.draw(st.sampled_from(["works", "works", "works", "fails", "is unclear", "hangs"]))
            if end == "works":
                self.feed(success(action, job, exit_status=data.draw(STATUS)))
            elif end != "hangs":
                self.feed(self.failure(data, action, definite=end == "fails"))

    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        """A process ends."""
        job = self.pool.view.jobs.get(data.draw(JOBS))
        if job is not None:
            status, saved = data.draw(STATUS), data.draw(CHECKPOINTS)
            self.feed(self.pool.stopped(job.name, status, saved=saved))

    @rule(data=st.data(), job=JOBS)
    def lie(self, data: st.DataObject, job: str) -> None:
        """A node reports an incarnation that it does not run, which changes nothing."""
        if job not in self.pool.view.jobs:
            return
        found = self.pool.job(job)
        node = data.draw(NODES.filter(lambda name: name != found.started_on))
        number, saved = found.incarnation, checkpoint(data.draw(st.integers(0, 300)))
        lies: list[c.ClusterEvent] = [
            c.ReplicaStarted(job=job, incarnation=number, node=node),
            c.ReplicaStopped(job=job, incarnation=number, node=node, exit_status=data.draw(STATUS), checkpoint=saved),
            c.CheckpointModeDeclared(job=job, incarnation=number, node=node, mode=data.draw(MODES)),
            c.CheckpointVerified(job=job, incarnation=number, node=node, checkpoint=saved),
        ]
        before = self.snapshot_but_position()
        self.feed(data.draw(st.sampled_from(lies)))
        assert self.snapshot_but_position() == before

    def snapshot_but_position(self) -> bytes:
        """All of the first view but how far it has read."""
        return msgspec.msgpack.encode(msgspec.structs.replace(self.pool.view.state, position=0))

    def some_plan(self, data: st.DataObject) -> Plan | None:
        """One of the plans in flight."""
        plans = sorted(self.pool.view.in_flight)
        return self.pool.view.in_flight[data.draw(st.sampled_from(plans))] if plans else None

    def failure(self, data: st.DataObject, begun: c.StepBegun, *, definite: bool) -> c.StepFailed:
        """A failed step."""
        return c.StepFailed(
            plan=begun.plan,
            step=begun.step,
            attempt=begun.attempt,
            job=begun.job,
            code=data.draw(
                st.sampled_from(["refused", "ended", "step-timeout", "no-such-program", "unknown-incarnation"])
            ),
            definite=definite,
            message="",
        )

    @invariant()
    def all_promises_hold(self) -> None:
        """Sums, orders, plans and lives, as recomputed slowly."""
        check_view(self.pool.view, room=not self.shrank)

    @invariant()
    def the_restored_view_is_equal(self) -> None:
        """Snapshot and tail give what the whole fold gives, to the byte."""
        assert self.again.snapshot() == self.pool.view.snapshot()
        if self.restored:  # else it was folded in the same way as the other one
            check_view(self.again, room=not self.shrank)


def copy(state: Any) -> Any:
    """A decider's state as it comes back from a snapshot."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=type(state))


TestAnyLog = AnyLog.TestCase
TestAnyLog.settings = settings(max_examples=scaled(60), stateful_step_count=60, deadline=None)


@given(st.lists(st.tuples(NONSENSE, HEADERS), max_size=60), st.integers(0, 60))
@settings(max_examples=scaled(60), deadline=None)
def test_snapshot_and_tail_equal_the_whole_fold(given_events: list[tuple[Any, dict[str, str]]], cut: int) -> None:
    """A snapshot at any position and the tail behind it equal the whole fold."""
    pool = FoldedPool(w1=1_000, w2=500)
    for event, headers in given_events:
        pool.fold(event, headers)
    view = ClusterView()
    for received in pool.log:
        if received.offset == cut:
            view = ClusterView.restore(view.snapshot())
        view.fold(received)
    assert view.snapshot() == pool.view.snapshot()
