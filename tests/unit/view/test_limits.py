"""What the view makes of limits: the newest plan holds for an incarnation, and its answer counts once."""

from __future__ import annotations

import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, category, migration, placement, submitted
from tests.harness.view_promises import check_view

from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.sagas.limit_machine import LimitMachine
from steepest.view.cluster_view import ClusterView
from steepest.view.folds.fold_limits import HOLD_MS
from steepest.view.progress_state import Limit

NL, WL, CL = c.GrowthList


def running(*jobs: str) -> FoldedPool:
    """Jobs on ``w1``."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    for job in jobs or ("a",):
        pool.run(job, "w1")
    return pool


def plan(*limits: c.JobLimit, name: str = "p", node: str = "w1") -> c.LimitsPlanned:
    """A plan for a node."""
    return c.LimitsPlanned(plan=name, node=node, limits=limits, because=c.LimitsBecause(rule="a test says so"))


def one(cpu_m: int | None, job: str = "a", incarnation: int = 1, of: c.GrowthList = CL) -> c.JobLimit:
    """A limit of one job."""
    return c.JobLimit(job, incarnation, of, cpu_m)


def yes(cpu_m: int | None, name: str = "p", job: str = "a", incarnation: int = 1) -> c.LimitsApplied:
    """The engine took it."""
    return c.LimitsApplied(plan=name, node="w1", job=job, incarnation=incarnation, cpu_m=cpu_m)


def no(*, definite: bool, name: str = "p", incarnation: int = 1) -> c.LimitsRefused:
    """The engine did not set the limit, or its effect is unknown."""
    return c.LimitsRefused(
        plan=name, node="w1", job="a", incarnation=incarnation, code="x", definite=definite, message="why"
    )


def limit_of(pool: FoldedPool, job: str = "a") -> Limit:
    """What the view holds."""
    limit = pool.job(job).limit
    assert limit is not None
    return limit


def test_a_limit_is_asked_for_and_then_in_force() -> None:
    """Between plan and answer what is in force is what was."""
    pool = running()
    assert pool.fold(plan(one(300)))
    assert (limit_of(pool).cpu_m, limit_of(pool).in_force_m, limit_of(pool).answered) == (300, None, False)
    pool.tick()
    assert pool.fold(yes(300))
    assert (limit_of(pool).in_force_m, limit_of(pool).answered) == (300, True)
    assert limit_of(pool).in_force_counted_ms == pool.view.counted_ms
    assert pool.fold(yes(300)) is False


def test_no_limit_where_none_was_needs_no_answer() -> None:
    """A plan that only says which list a job is in asks the engine for nothing."""
    pool = running()
    assert pool.fold(plan(one(None, of=WL)))
    assert (limit_of(pool).growth_list, limit_of(pool).answered) == (WL, True)


def test_the_newest_plan_holds() -> None:
    """An answer to an older one is outdated."""
    pool = running()
    pool.feed(plan(one(300)), plan(one(200), name="q"))
    assert pool.feed(yes(300), yes(200, "q")) == [False, True]
    assert limit_of(pool).in_force_m == 200


def test_the_same_value_again_is_the_same_wish() -> None:
    """The answer to the plan that wanted it first counts; the list is the newer one's."""
    pool = running()
    pool.feed(plan(one(300, of=NL)), plan(one(300, of=WL), name="q"))
    assert pool.feed(yes(300, "q"), yes(300)) == [False, True]
    assert (limit_of(pool).plan, limit_of(pool).growth_list) == ("p", WL)


def test_another_value_than_the_planned_one_does_not_count() -> None:
    """A value other than the planned one comes from another plan."""
    pool = running()
    pool.fold(plan(one(300)))
    assert pool.fold(yes(301)) is False


def test_a_clear_no_leaves_what_was_in_force() -> None:
    """And a plan that wants the same again asks again."""
    pool = running()
    pool.feed(plan(one(300)), yes(300), plan(one(200), name="q"))
    assert pool.fold(no(definite=True, name="q"))
    assert (limit_of(pool).in_force_m, limit_of(pool).answered, limit_of(pool).refused) == (300, True, "x: why")
    assert pool.fold(plan(one(200), name="r"))
    assert (limit_of(pool).plan, limit_of(pool).answered, limit_of(pool).refused) == ("r", False, "")


def test_an_unclear_answer_is_asked_for_again_after_a_hold() -> None:
    """The hold doubles; a yes ends it."""
    pool = running()
    pool.fold(plan(one(300)))
    holds = []
    for _ in range(8):
        assert pool.fold(no(definite=False))
        holds.append(limit_of(pool).not_before_counted_ms - pool.view.counted_ms)
    assert holds == [HOLD_MS * 2**n for n in (0, 1, 2, 3, 4, 5, 5, 5)]
    assert pool.fold(yes(300))
    assert (limit_of(pool).refused, limit_of(pool).in_force_m) == ("", 300)


@pytest.mark.parametrize(
    "void",
    [
        plan(one(300, "unknown")),
        plan(one(300, incarnation=2)),
        plan(one(300, incarnation=0)),
        plan(one(300), node="w2"),
        plan(),
    ],
)
def test_a_plan_for_what_does_not_run_there_is_void(void: c.LimitsPlanned) -> None:
    """It names another incarnation, another node, or an unknown job."""
    pool = running()
    assert pool.fold(void) is False
    assert pool.job("a").limit is None


def test_a_limit_of_a_gang_holds_for_its_replicas() -> None:
    """Each of those that run is to have it."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    workers = c.Role(name="worker", replicas=2, requests=Resources(cpu_m=600))
    pool.feed(submitted("gang", roles=(workers,)), placement("gang", "w1", "w2"))
    pool.carry_out("gang")
    machine = LimitMachine()
    pool.fold(plan(one(300, "gang")))
    machine.caught_up(pool.view)

    assert pool.job("gang").limit is not None
    replicas = [replica for task in machine.due for replica in task.replicas]
    assert replicas == [ReplicaId("gang", 0), ReplicaId("gang", 1)]


def test_a_plan_counts_for_those_that_still_run() -> None:
    """One of its jobs has ended meanwhile."""
    pool = running("a", "b")
    pool.end("a")
    assert pool.fold(plan(one(300), one(200, "b")))
    assert (pool.job("a").limit, limit_of(pool, "b").cpu_m) == (None, 200)


def test_a_limit_ends_with_its_process() -> None:
    """By its own end, by a stop for a move, and by the end of the job; what starts next has none."""
    pool = running()
    pool.feed(category("a", c.Category.CONVERGED), plan(one(300)), yes(300), migration("a", "w1", "w2"))
    pool.carry_out("a", before=c.Step.STOP)
    assert limit_of(pool).in_force_m == 300
    pool.carry_out("a")
    assert (pool.job("a").incarnation, pool.job("a").limit) == (2, None)
    assert pool.feed(yes(300), no(definite=True)) == [False, False]
    pool.fold(plan(one(200, incarnation=2), node="w2"))
    pool.fold(pool.stopped("a", 1))
    assert pool.job("a").limit is None
    pool.feed(c.RetryPlanned(job="a", incarnation=2, charged=False, not_before_ms=0, reason=""))
    pool.fold(placement("a", "w1", incarnation=2))
    pool.carry_out("a")
    assert pool.job("a").limit is None
    check_view(pool.view)


def test_limits_are_in_the_snapshot() -> None:
    """A restored view goes on with them."""
    pool = running()
    pool.feed(plan(one(300)), no(definite=False))
    restored = ClusterView.restore(pool.view.snapshot())
    assert restored.jobs["a"].limit == limit_of(pool)
    assert restored.nodes["w1"].jobs == {"a": None}
