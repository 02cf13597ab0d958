"""FlowCon and SpeCon in one pool: cap first, move only what still pays, and what was moved stays capped."""

from __future__ import annotations

import pytest
from tests.harness.scenarios.folded_pool import category, grown, requested
from tests.unit.flowcon.scene import CL, ITVAL_MS, NL, WL, FlowConPool

from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters
from steepest.policies.flowcon.with_specon import NotYet, not_yet, pays
from steepest.policies.named import POLICIES, named, under
from steepest.policies.specon.node_scorer import NodeScorer
from steepest.policies.specon.rebalancer import Rebalancer


def capped(limit_m: int = 200, target_m: int = 1_000) -> FlowConPool:
    """Three jobs on ``w1``, of which ``flat`` has converged, completes, and has had its cap for an interval."""
    pool = FlowConPool(NodeScorer(), Rebalancer(), moves=True, w1=1_000, w2=target_m)
    for name in ("steep", "also", "flat"):
        pool.run(name, "w1", c.Category.CONVERGED if name == "flat" else c.Category.PROGRESSING)
    plan(pool, "flat", CL, limit_m)
    pool.apply("flat")
    pool.tick(ITVAL_MS)
    return pool


def plan(pool: FlowConPool, job: str, growth_list: c.GrowthList, limit_m: int | None) -> None:
    """FlowCon plans this for a job."""
    found = pool.job(job)
    assert found.node is not None
    pool.fold(
        c.LimitsPlanned(
            plan=f"by-hand-{len(pool.log)}",
            node=found.node,
            limits=(c.JobLimit(job, found.incarnation, growth_list, limit_m),),
            because=c.LimitsBecause(rule="a test says so"),
        )
    )


def asked(pool: FlowConPool) -> list[c.ClusterEvent]:
    """What comes of ``flat`` asking for another place."""
    return pool.ask(requested("flat"))


def test_a_capped_job_that_has_settled_moves_where_it_gets_more() -> None:
    """All three rules are met: it completes, its cap is old, and an idle node gives it five times as much."""
    (move,) = asked(capped())

    assert isinstance(move, c.MigrationPlanned)
    assert (move.job, move.source, move.target) == ("flat", "w1", "w2")


@pytest.mark.parametrize("growth_list", [NL, WL])
def test_cap_first(growth_list: c.GrowthList) -> None:
    """A job that FlowCon does not list as completing may only be slow because of its cap: it is not moved."""
    pool = capped()
    plan(pool, "flat", growth_list, 200)

    assert asked(pool) == []
    assert not_yet(pool.view, pool.job("flat")) is NotYet.NOT_COMPLETING


def test_growth_measured_across_a_change_of_cap_moves_nothing() -> None:
    """A cap that was halved halves the growth in an interval; only the next interval shows the true growth."""
    pool = capped()
    plan(pool, "flat", CL, 100)
    assert asked(pool) == []
    pool.apply("flat")
    assert asked(pool) == []
    pool.tick(ITVAL_MS - 1)
    assert asked(pool) == []
    pool.tick(1)
    assert len(asked(pool)) == 1


@pytest.mark.parametrize(("limit_m", "target_m", "moves"), [(200, 201, 1), (200, 200, 0), (500, 400, 0), (100, 400, 1)])
def test_only_what_still_pays_is_moved(limit_m: int, target_m: int, moves: int) -> None:
    """An equal share of the target must be more than the cap; what does not pay is not decided, and may ask again."""
    pool = capped(limit_m, target_m)

    assert len(asked(pool)) == moves
    assert pool.job("flat").migrated is bool(moves)


def test_a_target_with_others_is_shared() -> None:
    """A thousand for two is five hundred."""
    pool = capped(limit_m=499)
    job, target = pool.job("flat"), pool.node("w2")

    assert pays(pool.view, job, target, replicas=1)
    assert not pays(pool.view, job, target, replicas=2)


def test_without_flowcon_nothing_is_asked_of_a_cap() -> None:
    """SpeCon alone decides as it always did."""
    pool = FlowConPool(NodeScorer(), on=False, moves=True, w1=1_000, w2=100)
    for name in ("steep", "also", "flat"):
        pool.run(name, "w1", c.Category.CONVERGED if name == "flat" else c.Category.PROGRESSING)

    assert len(asked(pool)) == 1


def test_what_was_moved_stays_capped() -> None:
    """A completing job stays in CL on the node it moves to, and takes nothing from the jobs that learn there."""
    pool = capped()
    pool.planner.state.jobs["flat"].growth_list = CL
    pool.run("local", "w2", c.Category.PROGRESSING)
    for number, mean in enumerate((1.0, 0.8), 2):
        pool.interval(number, local=(mean, 500))
    pool.apply("flat")
    pool.feed(*(grown(job, c.Category.PROGRESSING) for job in ("steep", "also")))
    pool.tick(ITVAL_MS)
    asked(pool)
    pool.carry_out("flat")
    found = pool.job("flat")

    assert (found.node, found.incarnation) == ("w2", 2)
    assert pool.limit("flat") == (CL, 333)
    assert pool.limit("local") == (NL, None)
    assert pool.planner.state.moving == {}


def test_what_was_moved_is_known_as_completing_also_where_no_job_is_capped() -> None:
    """On an idle node all complete, so nothing is limited; its list is recorded all the same."""
    pool = capped()
    pool.planner.state.jobs["flat"].growth_list = CL
    asked(pool)
    pool.carry_out("flat")

    assert pool.limit("flat") == (CL, None)


def test_a_job_that_starts_again_by_itself_is_new() -> None:
    """Only a move takes the list along."""
    pool = capped()
    pool.planner.state.jobs["flat"].growth_list = CL
    pool.fold(pool.stopped("flat", 1))

    assert pool.planner.state.moving == {}


def test_rebalancing_asks_whether_it_pays_too() -> None:
    """Algorithm 5 moves a capped job to an idle node only if that gives it more."""
    for target_m, moves in ((300, 1), (200, 0)):
        pool = capped(200, target_m)
        for name in ("steep", "also"):
            pool.fold(category(name, c.Category.CONVERGED))
            plan(pool, name, CL, 250)
            pool.apply(name)
        before = len(pool.decided)
        pool.tick(60_000)
        made = [event for event in pool.decided[before:] if isinstance(event, c.MigrationPlanned)]

        assert len(made) == moves


@pytest.mark.parametrize("name", POLICIES)
def test_policies_have_names(name: str) -> None:
    """What a name switches on is known by that name; what it does not switch stays."""
    plain = PoolParameters(tick_ms=7)
    after = under(name, plain)

    assert named(after) == name
    assert (after.tick_ms, after.placement) == (7, POLICIES[name].placement or "spread")


def test_a_placement_of_its_own_leaves_with_its_policy() -> None:
    """FlowCon 2.0 brings its placement; one that the pool has by itself stays under any other policy."""
    own = PoolParameters(placement="flowcon2")

    assert under("spread", under("flowcon2", PoolParameters())).placement == "spread"
    assert under("specon", own).placement == "flowcon2"


def test_the_default_policy_is_specon() -> None:
    """Nothing that a pool did not ask for is on."""
    assert named(PoolParameters()) == "specon"
    assert under("specon", PoolParameters()) == PoolParameters()
