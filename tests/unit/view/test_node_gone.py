"""A node that an operator says is gone for good: its jobs go on elsewhere, and moves take the way that is left."""

from __future__ import annotations

import pytest
from tests.harness.scenarios.folded_pool import (
    FoldedPool,
    cancelled,
    joined,
    migration,
    placement,
    submitted,
    success,
)
from tests.harness.scenarios.scenario import spell
from tests.harness.system.driver import DeciderDriver
from tests.harness.view_promises import check_view

from steepest.events import cluster as c
from steepest.events.parameters import FlowConParameters, PoolParameters
from steepest.invariants import Status, check
from steepest.policies.flowcon.limit_planner import LimitPlanner
from steepest.policies.placement.placer import Placer
from steepest.view.state import Heading, Phase, PlanStatus

STEPS = (c.Step.CHECKPOINT, c.Step.STOP, c.Step.START, c.Step.VERIFY)


def gone(pool: FoldedPool, node: str) -> None:
    """The node is lost, and an operator says that it never returns."""
    assert pool.feed(c.NodeLost(node=node, silent_ms=15_000), c.NodeGone(node=node)) == [True, True]
    assert node not in pool.view.nodes
    check_view(pool.view)


def moving(before: c.Step, *, begun: bool) -> FoldedPool:
    """A job that is moved from w1 to w2, up to a step."""
    pool = FoldedPool(w1=1_000, w2=1_000, w3=1_000)
    pool.run("a", "w1")
    pool.fold(migration("a", "w1", "w2"))
    pool.carry_out("a", before=before)
    if begun:
        pool.begin("a")
    return pool


def test_only_a_lost_node_is_gone() -> None:
    """A node that sends heartbeats is never gone."""
    pool = FoldedPool(w1=1_000)
    pool.run("a", "w1")
    assert pool.feed(c.NodeGone(node="w1"), c.NodeGone(node="w9")) == [False, False]
    assert pool.job("a").alive


def test_its_jobs_are_started_elsewhere_without_a_charge() -> None:
    """All of them, each once; a cancelled one is over, and the node may join as a new one."""
    driver = DeciderDriver(Placer(), LimitPlanner(), w1=1_000)
    for name in ("a", "b", "d"):
        driver.run(name, "w1")
    driver.feed(joined("w2"), c.NodeLost(node="w1", silent_ms=1), cancelled("d"))
    made = driver.ask(c.NodeGone(node="w1"))
    assert [spell(event) for event in made] == ["retry a at 1000", "retry b at 1000", "cancelled d"]
    assert driver.job("a").stop_reason == "node w1 is gone for good"
    driver.tick(1_000)
    assert [spell(event) for event in driver.decided[-2:]] == ["place a w2", "place b w2"]
    driver.carry_out("a")
    assert (driver.job("a").incarnation, driver.job("a").node, driver.job("a").retries_used) == (2, "w2", 0)
    assert driver.fold(c.NodeJoined(node="w1", capacity=driver.node("w2").capacity))
    assert driver.node("w1").free == driver.node("w1").capacity
    check_view(driver.view)
    assert [one for one in check(driver.log) if one.status is Status.BROKEN] == []


@pytest.mark.parametrize("begun", [False, True])
def test_a_placement_there_is_over(begun: bool) -> None:  # noqa: FBT001
    """Whether it was begun or not, the job waits for another place."""
    pool = FoldedPool(w1=1_000)
    pool.feed(submitted("a"), placement("a", "w1"))
    if begun:
        pool.begin("a")
    gone(pool, "w1")
    assert pool.job("a").phase is Phase.STOPPED
    assert not pool.view.in_flight


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_move_whose_source_is_gone(step: c.Step, begun: bool) -> None:  # noqa: FBT001
    """Once the job was stopped it goes on at its target; before, it has ended with its node."""
    pool = moving(step, begun=begun)
    gone(pool, "w1")
    if step in {c.Step.CHECKPOINT, c.Step.STOP}:
        assert pool.job("a").phase is Phase.STOPPED
        assert not pool.view.in_flight
        assert pool.allocated() == {}
    else:
        carry_on(pool)
        assert (pool.job("a").alive, pool.job("a").node, pool.job("a").moves) == (True, "w2", 1)
        assert pool.allocated() == {"w2": 100}


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_move_whose_target_is_gone(step: c.Step, begun: bool) -> None:  # noqa: FBT001
    """The job stays where it is, or is started there again."""
    pool = moving(step, begun=begun)
    gone(pool, "w2")
    carry_on(pool)
    stays = step is c.Step.CHECKPOINT or (step is c.Step.STOP and not begun)
    incarnation = {c.Step.START: 3 if begun else 2, c.Step.VERIFY: 3}.get(step, 1 if stays else 2)
    assert (pool.job("a").alive, pool.job("a").node, pool.job("a").moves) == (True, "w1", 0)
    assert pool.job("a").incarnation == incarnation
    assert pool.allocated() == {"w1": 100}


def test_a_move_that_goes_back_to_a_node_that_is_gone_is_over() -> None:
    """There is no third place to go to but by the queue."""
    pool = moving(c.Step.START, begun=False)
    pool.fail("a", "no-such-program")
    plan = pool.plan_of("a")
    assert plan.heading is Heading.BACK
    gone(pool, "w1")
    assert (plan.status, pool.job("a").phase, pool.allocated()) == (PlanStatus.FAILED, Phase.STOPPED, {})


def test_a_move_between_two_nodes_that_are_gone_is_over() -> None:
    """One after the other."""
    pool = moving(c.Step.VERIFY, begun=True)
    gone(pool, "w1")
    gone(pool, "w2")
    assert (pool.job("a").phase, len(pool.view.in_flight)) == (Phase.STOPPED, 0)


def test_limits_of_a_node_that_is_gone_are_looked_at_no_more() -> None:
    """Its next run would look at a node that is not there."""
    pool = DeciderDriver(LimitPlanner(), w1=1_000)
    parameters = PoolParameters(flowcon=FlowConParameters(on=True))
    pool.fold(c.PoolConfigured(parameters=parameters))
    pool.run("a", "w1", c.Category.PROGRESSING)
    gone(pool, "w1")
    pool.tick(60_000)
    assert pool.deciders[0].state.rounds == {}


def carry_on(pool: FoldedPool) -> None:
    """The step under way succeeds, where it still counts, and the plan is carried out to its end."""
    plan = pool.view.plan_of(pool.job("a"))
    if plan is not None and plan.begun:
        begun = next(one.event for one in reversed(pool.log) if isinstance(one.event, c.StepBegun))
        pool.fold(success(begun, pool.job("a")))
        check_view(pool.view)
    pool.carry_out("a")
    check_view(pool.view)
