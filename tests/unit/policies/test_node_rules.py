"""Planners that make room or balance go by which nodes a job may run on, as the placer does."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.common import LabelOperator, LabelRequirement, NodeRule, Resources
from steepest.events.parameters import PoolParameters, PreemptionLimits, QueueParameters
from steepest.events.registry import FLAGS, READS
from steepest.policies.placement.placer import Placer
from steepest.policies.specon.rebalancer import Rebalancer
from steepest.testing.scenarios.folded_pool import submitted
from steepest.testing.system.driver import DeciderDriver

ZONE_A = NodeRule(requires=(LabelRequirement(key="zone", operator=LabelOperator.IN, values=("a",)),))


def labelled(node: str, zone: str) -> c.NodeJoined:
    """A node that says where it is."""
    return c.NodeJoined(node=node, capacity=Resources(1_000), labels={"zone": zone})


def test_room_is_made_where_the_urgent_job_may_run() -> None:
    """Equal jobs run on both nodes; the one gives way whose node it may run on, though another node's name comes first."""
    driver = DeciderDriver(Placer())
    queueing = QueueParameters(policy="priority", preempt=True)
    parameters = PoolParameters(queueing=queueing, preemption=PreemptionLimits(min_run_ms=0))
    driver.feed(c.PoolConfigured(reads=READS, flags=tuple(FLAGS), parameters=parameters))
    driver.feed(labelled("w1", "b"), labelled("w2", "a"))
    for job, node in (("on-w1", "w1"), ("on-w2", "w2")):
        driver.feed(submitted(job, 1_000, first_node=node))
        driver.carry_out(job)
    driver.feed(submitted("urgent", 1_000, priority=5, node_rule=ZONE_A))
    driver.tick()

    planned = [one for one in driver.decided if isinstance(one, c.TransitionPlanned)]
    assert [one.job for one in planned] == ["on-w2"]
    assert driver.plan_of("urgent").targets == ("w2",)


def test_an_idle_node_gets_no_job_that_may_not_run_there() -> None:
    """Of three converged jobs on a node, the one that may leave for the idle one moves, though another converged later."""
    driver = DeciderDriver(Rebalancer())
    driver.feed(c.PoolConfigured(reads=READS, flags=tuple(FLAGS)), labelled("w1", "a"), labelled("w2", "b"))
    for job, rule in (("free", None), ("bound-1", ZONE_A), ("bound-2", ZONE_A)):
        driver.tick()
        driver.run(job, "w1", c.Category.CONVERGED, node_rule=rule)
    driver.tick()

    moves = [one for one in driver.decided if isinstance(one, c.MigrationPlanned)]
    assert [(one.job, one.target) for one in moves] == [("free", "w2")]
