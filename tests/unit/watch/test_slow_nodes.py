"""A node that has become slow is closed, jobs leave it where that pays, and it is opened once it is well."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.scenarios.folded_pool import migration
from tests.harness.system.driver import DeciderDriver

from steepest.describe import sentence
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.growth import FindingKind, Reaction, Reactions
from steepest.events.parameters import PoolParameters, WatchParameters
from steepest.policies.placement.placer import Placer
from steepest.policies.watch.slow_nodes import CLOSED_MS
from steepest.policies.watch.watcher import Watcher, WatcherState
from steepest.read_models.changes.job_changes import ChangeKind, change_of_node
from steepest.read_models.node_rows import node_row
from steepest.view.cluster_view import ClusterView
from steepest.view.folds.fold_findings import AVOIDS_MS
from steepest.view.places.node_rules import why_not_allowed
from steepest.view.state import Phase, ViewState

SLOW = 0.6
LONG, SHORT, UNKNOWN = 100_000, 600, 0


class TwoNodes(DeciderDriver):
    """Jobs of a core on ``w1``, and ``w2`` that is empty; each makes ten steps a second, as the node is fast."""

    def __init__(self, delay: int = 0, *, hung: Reaction = Reaction.NOTIFY, **totals: int) -> None:
        super().__init__(Placer(), Watcher(), delay=delay, w1=4_000)
        watch = WatchParameters(drains=True, hung=hung)
        self.fold(c.PoolConfigured(parameters=PoolParameters(watch=watch)))
        self.silent: dict[str, None] = {}
        self.totals, self.steps = totals, dict.fromkeys(totals, 0.0)
        for job in totals:
            self.run(job, "w1")
        self.fold(c.NodeJoined(node="w2", capacity=Resources(cpu_m=4_000)))

    def passes(
        self, seconds: int, speeds: Mapping[str, float] = {}, stands: tuple[str, ...] = ()
    ) -> list[c.ClusterEvent]:
        """Time in which the nodes are as fast as said, and these jobs make no step."""
        before = len(self.decided)
        for _ in range(seconds):
            self.tick(1_000)
            for node in ("w1", "w2") if "w2" not in self.silent else ("w1",):
                here = [job for job in self.steps if self.job(job).alive and self.job(job).node == node]
                for job in here:
                    self.steps[job] += 0 if job in stands else 10 * speeds.get(node, 1.0)
                found = [
                    c.ReplicaProgress(
                        job=job,
                        incarnation=self.job(job).incarnation,
                        step=int(self.steps[job]),
                        total=self.totals[job],
                    )
                    for job in here
                ]
                jobs = {job: 0 if job in stands else 1_000 for job in here}
                used = Resources(cpu_m=sum(jobs.values()))
                self.fold(c.NodeUsage(node=node, used=used, jobs=jobs, progress=tuple(found)))
        return self.decided[before:]

    def moves(self) -> list[c.MigrationPlanned]:
        """What the watcher has moved."""
        return [event for event in self.decided if isinstance(event, c.MigrationPlanned)]

    def slow(self) -> None:
        """The node becomes slow, and is closed."""
        self.passes(40)
        self.passes(45, {"w1": SLOW})
        assert self.node("w1").drained


def test_a_job_leaves_a_slow_node_where_it_gains_more_than_the_move_costs() -> None:
    """The one that is almost done stays; the plan says why, what it gains, and at which price."""
    pool = TwoNodes(a=LONG, b=SHORT)
    pool.slow()
    (plan,) = pool.moves()

    assert (plan.job, plan.source, plan.target, plan.kind) == ("a", "w1", "w2", c.MoveKind.SLOW_NODE)
    left_ms = 100 * (LONG - 40 * 10)  # a step takes 100 ms, and two thirds more now
    assert plan.because.gain_ms == pytest.approx(left_ms * 0.67, rel=0.02)
    pool.carry_out("a")
    assert (pool.job("a").node, pool.job("b").node) == ("w2", "w1")
    assert pool.passes(30, {"w1": SLOW}) == []
    why = node_row(pool.view, pool.node("w1")).slow
    assert why.startswith("steps of a, b take 1.7 times as long as before")
    assert why_not_allowed(None, pool.node("w1")).endswith(f": {why}")
    (closed,) = [event for event in pool.decided if isinstance(event, c.NodeDrainRequested)]
    assert sentence(closed) == f"node w1 is drained: it gets no more jobs: {why}"


def test_jobs_leave_one_after_the_other_as_long_as_there_is_room() -> None:
    """Each is read back before the next; one that would have to share a full node stays."""
    pool = TwoNodes(delay=2, a=LONG, b=LONG, c=LONG)
    pool.run("x", "w2")
    pool.steps["x"], pool.totals["x"] = 0, LONG
    pool.fold(c.NodeUsage(node="w2", used=Resources(cpu_m=2_000), jobs={"x": 2_000}))
    pool.slow()
    for _ in range(6):
        for job in "abc":
            pool.carry_out(job)
        pool.passes(5, {"w1": SLOW})
    assert len({plan.job for plan in pool.moves()}) == len(pool.moves()) == 3
    assert [pool.job(job).node for job in "abc"] == ["w2"] * 3


def test_a_job_of_unknown_length_stays() -> None:
    """Nobody knows what it would gain."""
    pool = TwoNodes(a=UNKNOWN, b=UNKNOWN)
    pool.slow()
    assert pool.moves() == []


def test_a_slow_node_is_opened_once_its_jobs_are_as_fast_as_before() -> None:
    """However long it was slow: what they took then never becomes their own pace."""
    pool = TwoNodes(a=UNKNOWN, b=UNKNOWN)
    pool.slow()
    pool.passes(300, {"w1": SLOW})
    assert pool.node("w1").drained
    (opened, *_) = [event for event in pool.passes(60) if isinstance(event, c.NodeDrainRequested)]
    assert (opened.drained, opened.why) == (False, "its jobs are as fast as before")
    assert not pool.node("w1").drained


def test_a_slow_node_without_a_job_that_shows_it_is_opened_after_a_while() -> None:
    """After half an hour; the next time it takes twice as long."""
    pool = TwoNodes(a=LONG, b=LONG)
    for times in (1, 2):
        pool.slow()
        for job in "ab":
            pool.carry_out(job)
            pool.passes(3, {"w1": SLOW})
            pool.carry_out(job)
        assert [pool.job(job).node for job in "ab"] == ["w2", "w2"]
        closed_ms = pool.node("w1").slow_counted_ms or 0
        while pool.node("w1").drained:
            pool.tick(10_000)
            pool.fold(c.NodeUsage(node="w1", used=Resources()))
        assert pool.view.counted_ms - closed_ms == pytest.approx(times * CLOSED_MS, abs=20_000)
        if times == 1:
            for job in "ab":
                pool.fold(migration(job, "w2", "w1", plan=f"back-{job}", incarnation=2, kind=c.MoveKind.REQUEST))
                pool.carry_out(job)


def test_an_operator_has_the_last_word() -> None:
    """A node that is drained by one stays so, and one that is opened by one stays open for a while."""
    pool = TwoNodes(a=UNKNOWN, b=UNKNOWN)
    pool.slow()
    assert change_of_node(pool.view, ChangeKind.DRAIN, "w1").ask is not None
    pool.fold(c.NodeDrainRequested(node="w1", request="r", drained=True))
    assert node_row(pool.view, pool.node("w1")).slow == ""
    pool.passes(60)
    assert pool.node("w1").drained
    pool = TwoNodes(a=UNKNOWN, b=UNKNOWN)
    pool.slow()
    pool.fold(c.NodeDrainRequested(node="w1", request="r", drained=False))
    pool.passes(60, {"w1": SLOW})
    assert not pool.node("w1").drained


@pytest.mark.parametrize("both", [True, False])
def test_a_hung_job_goes_elsewhere_where_its_node_is_the_cause(both: bool) -> None:  # noqa: FBT001 - a case
    """Half of the other jobs there hang as well; alone, it may start where it was. After ten minutes it may return."""
    pool = TwoNodes(hung=Reaction.RESTART, a=LONG, b=LONG)
    pool.passes(40)
    pool.passes(75, stands=("a", "b") if both else ("a",))
    reactions = [event for event in pool.decided if isinstance(event, c.ReactionPlanned)]
    assert [event.avoids for event in reactions][:1] == (["w1"] if both else [None])
    for job in ("a", "b") if both else ("a",):
        pool.carry_out(job)
        pool.tick(5_000)
        pool.carry_out(job)
        assert (pool.job(job).phase, pool.job(job).incarnation) == (Phase.RUNNING, 2)
    if both:
        assert [pool.job(job).node for job in "ab"] == ["w2", "w2"]
        assert "away from w1" in sentence(reactions[0])
        while pool.view.counted_ms < AVOIDS_MS + 300_000:
            pool.tick(10_000)
        assert pool.job("a").node_rule is None
        assert pool.view.avoiding == {}


@given(at_s=st.integers(0, 40), for_s=st.integers(1, 5), delay=st.integers(0, 4))
@settings(max_examples=15)
def test_a_move_that_finds_its_target_lost_is_planned_again(at_s: int, for_s: int, delay: int) -> None:
    """Whenever that is: once the node is back, the job goes there."""
    pool = TwoNodes(delay, a=LONG, b=SHORT)
    pool.passes(40)
    for second in range(60):
        if second == at_s:
            pool.silent["w2"] = None
            pool.fold(c.NodeLost(node="w2", silent_ms=15_000))
        if second == at_s + for_s:
            pool.silent = {}
        pool.passes(1, {"w1": SLOW})
    pool.carry_out("a")
    assert pool.job("a").node == "w2"


STRETCHES = st.lists(st.tuples(st.integers(1, 40), st.sampled_from((0.4, SLOW, 1.0)), st.booleans()), max_size=12)


@given(stretches=STRETCHES, delay=st.integers(0, 4))
@settings(max_examples=15)
def test_what_is_decided_of_slow_nodes_is_the_same_from_snapshots(
    stretches: list[tuple[int, float, bool]], delay: int
) -> None:
    """Nothing is remembered outside the log: with view and watcher made from their states at each turn, nothing changes."""
    decided = []
    for restores in (False, True):
        pool = TwoNodes(delay, hung=Reaction.RESTART, a=LONG, b=LONG, d=SHORT)
        pool.passes(40)
        for seconds, speed, stands in stretches:
            pool.passes(seconds, {"w1": speed}, stands=("a", "b") if stands else ())
            for job in "abd":
                pool.carry_out(job)
            if restores:
                again = msgspec.msgpack.decode(msgspec.msgpack.encode(pool.view.state), type=ViewState)
                watcher, placer = Watcher.name, Placer.name
                states = {one.name: msgspec.msgpack.encode(one.state) for one in pool.deciders}
                made = Watcher(msgspec.msgpack.decode(states[watcher], type=WatcherState))
                pool.restore(
                    ClusterView(again), [Placer(msgspec.msgpack.decode(states[placer], type=Placer.state_type)), made]
                )
        decided.append(pool.decided)
    assert decided[0] == decided[1]


def test_which_reactions_name_a_node() -> None:
    """None by default: a job that only notifies stays where it is."""
    pool = TwoNodes(a=LONG, b=LONG)
    pool.passes(40)
    pool.passes(75, stands=("a", "b"))
    assert FindingKind.HUNG in pool.job("a").findings
    assert Reactions() == pool.job("a").spec.reactions
    assert not [event for event in pool.decided if isinstance(event, c.ReactionPlanned)]
