"""Planners that place, make room or balance go by which nodes a job may run on, of one replica or of several."""

from __future__ import annotations

from tests.harness.scenarios.folded_pool import submitted
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import LabelOperator, LabelRequirement, NodeRule, Resources
from steepest.events.parameters import (
    PickyManParameters,
    PoolParameters,
    PreemptionLimits,
    PreemptionRule,
    QueueParameters,
)
from steepest.events.requests import Role
from steepest.policies.pickyman.preemption_planner import CANDIDATES, PreemptionPlanner
from steepest.policies.placement.placer import Placer
from steepest.policies.specon.rebalancer import Rebalancer

ZONE_A = NodeRule(requires=(LabelRequirement(key="zone", operator=LabelOperator.IN, values=("a",)),))


def labelled(node: str, zone: str) -> c.NodeJoined:
    """A node that says where it is."""
    return c.NodeJoined(node=node, capacity=Resources(1_000), labels={"zone": zone})


def test_room_is_made_where_the_urgent_job_may_run() -> None:
    """Equal jobs run on both nodes; the one gives way whose node it may run on, though another node's name comes first."""
    driver = DeciderDriver(Placer())
    queueing = QueueParameters(policy="priority", preempt=True)
    parameters = PoolParameters(queueing=queueing, preemption=PreemptionLimits(min_run_ms=0))
    driver.feed(c.PoolConfigured(parameters=parameters))
    driver.feed(labelled("w1", "b"), labelled("w2", "a"))
    for job, node in (("on-w1", "w1"), ("on-w2", "w2")):
        driver.feed(submitted(job, 1_000, first_node=node))
        driver.carry_out(job)
    driver.feed(submitted("urgent", 1_000, priority=5, node_rule=ZONE_A))
    driver.tick()

    planned = [one for one in driver.decided if isinstance(one, c.TransitionPlanned)]
    assert [one.job for one in planned] == ["on-w2"]
    assert driver.plan_of("urgent").targets == ("w2",)


def test_room_for_a_gang_is_made_where_it_may_run() -> None:
    """On several nodes of its zone: the jobs there give way, and none on the node that it may not run on."""
    driver = DeciderDriver(Placer())
    queueing = QueueParameters(policy="priority", preempt=True)
    parameters = PoolParameters(queueing=queueing, preemption=PreemptionLimits(min_run_ms=0))
    driver.feed(c.PoolConfigured(parameters=parameters))
    driver.feed(labelled("w1", "b"), labelled("w2", "a"), labelled("w3", "a"))
    for node in ("w1", "w2", "w3"):
        driver.feed(submitted(f"on-{node}", 1_000, first_node=node))
        driver.carry_out(f"on-{node}")
    driver.feed(submitted("urgent", 1_000, replicas=2, priority=5, node_rule=ZONE_A))
    driver.tick()

    planned = [one for one in driver.decided if isinstance(one, c.TransitionPlanned)]
    assert sorted(one.job for one in planned) == ["on-w2", "on-w3"]
    assert sorted(driver.plan_of("urgent").targets) == ["w2", "w3"]


def test_pickyman_weighs_those_that_run_where_a_gang_may() -> None:
    """However many others are looked at before them."""
    driver = DeciderDriver(PreemptionPlanner())
    pickyman = PickyManParameters(on=True, rule=PreemptionRule.ROUND_ROBIN, slice_ms=1_000)
    parameters = PoolParameters(pickyman=pickyman, preemption=PreemptionLimits(min_run_ms=0))
    driver.feed(c.PoolConfigured(parameters=parameters))
    driver.feed(c.NodeJoined(node="w1", capacity=Resources(10 * CANDIDATES), labels={"zone": "b"}))
    for number in range(CANDIDATES):
        driver.run(f"early-{number}", "w1", cpu_m=10)
    driver.feed(labelled("w2", "a"))
    for number in range(2):
        driver.tick()
        driver.run(f"late-{number}", "w2", cpu_m=500)
    driver.feed(submitted("gang", 400, replicas=2, node_rule=ZONE_A))
    for _ in range(5):
        driver.tick()

    planned = [one for one in driver.decided if isinstance(one, c.TransitionPlanned)]
    assert sorted(one.job for one in planned) == ["late-0", "late-1"]
    assert driver.plan_of("gang").targets == ("w2", "w2")


def test_a_gang_starts_where_it_may_run_though_others_have_more_room() -> None:
    """With as many replicas as these nodes hold, beginning with its first node if they are more than one."""
    for first_node, nodes in ((None, ("w2", "w2", "w3")), ("w3", ("w3", "w2", "w2"))):
        driver = DeciderDriver(Placer())
        driver.feed(c.PoolConfigured())
        for node, zone, cpu_m in (("w1", "b", 9_000), ("w2", "a", 200), ("w3", "a", 100)):
            driver.feed(c.NodeJoined(node=node, capacity=Resources(cpu_m), labels={"zone": zone}))
        workers = Role(name="worker", replicas=4, min=2, requests=Resources(100))
        driver.feed(submitted("gang", roles=(workers,), first_node=first_node, node_rule=ZONE_A))

        assert driver.plan_of("gang").targets == nodes


def test_gangs_that_wait_for_the_same_nodes_have_room_by_what_these_have_now() -> None:
    """What one takes is gone for the next, and comes back when a job ends there, a node joins, or one gets the label."""
    driver = DeciderDriver(Placer())
    driver.feed(c.PoolConfigured())
    for node, zone in (("w1", "b"), ("w2", "a")):
        driver.feed(c.NodeJoined(node=node, capacity=Resources(200), labels={"zone": zone}))
    names = [f"gang-{number}" for number in range(4)]
    driver.feed(*(submitted(name, 100, replicas=2, node_rule=ZONE_A) for name in names))

    def placed() -> dict[str, tuple[str, ...]]:
        return {one.job: one.nodes for one in driver.decided if isinstance(one, c.PlacementPlanned)}

    assert placed() == {names[0]: ("w2", "w2")}
    driver.carry_out(names[0])
    driver.feed(*(driver.stopped(names[0], 0, replica=replica) for replica in (0, 1)))
    assert placed() == {names[0]: ("w2", "w2"), names[1]: ("w2", "w2")}
    driver.feed(c.NodeJoined(node="w3", capacity=Resources(200), labels={"zone": "a"}))
    driver.feed(c.NodeJoined(node="w1", capacity=Resources(200), labels={"zone": "a"}))
    assert [placed()[name] for name in names[2:]] == [("w3", "w3"), ("w1", "w1")]
    assert driver.view.refused is None


def test_an_idle_node_gets_no_job_that_may_not_run_there() -> None:
    """Of three converged jobs on a node, the one that may leave for the idle one moves, though another converged later."""
    driver = DeciderDriver(Rebalancer())
    driver.feed(c.PoolConfigured(), labelled("w1", "a"), labelled("w2", "b"))
    for job, rule in (("free", None), ("bound-1", ZONE_A), ("bound-2", ZONE_A)):
        driver.tick()
        driver.run(job, "w1", c.Category.CONVERGED, node_rule=rule)
    driver.tick()

    moves = [one for one in driver.decided if isinstance(one, c.MigrationPlanned)]
    assert [(one.job, one.target) for one in moves] == [("free", "w2")]
