"""Under every planner and any labels, taints and rules: no job is planned to a node that it may not run on, nor left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled
from tests.harness.scenarios.folded_pool import category, grown, requested, submitted
from tests.harness.system.driver import DeciderDriver
from tests.harness.view_promises import check_view
from tests.property.node_terms import LABELS, RULES, TAINTS, said

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import (
    PickyManParameters,
    PoolParameters,
    PreemptionLimits,
    PreemptionRule,
    QueueParameters,
    SteepestParameters,
)
from steepest.events.received import Received
from steepest.events.requests import Role
from steepest.policies.decider import ClusterDecider
from steepest.policies.dragon.gang_scheduler import GangScheduler
from steepest.policies.named import under
from steepest.policies.pickyman.preemption_planner import PreemptionPlanner
from steepest.policies.placement.gangs import choose
from steepest.policies.placement.placer import Placer
from steepest.policies.placement.slots import Slots
from steepest.policies.placement.standing import standings
from steepest.policies.specon.node_scorer import NodeScorer
from steepest.policies.specon.rebalancer import Rebalancer
from steepest.policies.steepest.steepest_planner import SteepestPlanner
from steepest.runtime.decision_stream import MintedDecision
from steepest.view.places.node_rules import is_allowed
from steepest.view.state import Phase
from steepest.view.validity import NoRoom

NODES = st.sampled_from(["w1", "w2", "w3"])
ACTS = st.one_of(
    st.tuples(st.just("submit"), st.sampled_from([100, 300, 500]), RULES, st.integers(0, 1)),
    st.tuples(st.just("submit"), st.sampled_from([100, 300, 500]), RULES, st.integers(0, 1)),
    st.tuples(st.just("terms"), NODES, LABELS, TAINTS),
    st.tuples(st.just("gang"), st.integers(1, 4), st.integers(1, 4), RULES),
    st.tuples(st.just("carry"), st.integers(0, 5)),
    st.tuples(st.just("converge"), st.integers(0, 5)),
    st.tuples(st.just("exit"), st.integers(0, 5)),
    st.tuples(st.just("tick"), st.sampled_from([1_000, 40_000])),
)
NO_LIMITS = PreemptionLimits(min_run_ms=0)
PICKYMAN = PickyManParameters(on=True, rule=PreemptionRule.ROUND_ROBIN, slice_ms=1_000)
PARAMETERS = {
    "specon": PoolParameters(),
    "flowcon2": PoolParameters(placement="flowcon2"),
    "preempt": PoolParameters(queueing=QueueParameters(policy="priority", preempt=True), preemption=NO_LIMITS),
    "pickyman": PoolParameters(pickyman=PICKYMAN, preemption=NO_LIMITS),
    "dragon": under("dragon-fixed", PoolParameters()),
    "steepest": PoolParameters(steepest=SteepestParameters(on=True)),
}


class ChosenNodes(DeciderDriver):
    """Watches every plan that is made or stands in the log."""

    def take_in(self, received: Received[c.ClusterEvent]) -> bool:
        """A plan that counts is for nodes that its job may run on, and none is refused because it is not."""
        event = received.event
        before = {node.name: node for node in self.view.nodes}
        accepted = super().take_in(received)
        match event:
            case c.PlacementPlanned(nodes=nodes) | c.TransitionPlanned(nodes=nodes):
                targets: tuple[str, ...] = nodes
            case c.MigrationPlanned(target=target):
                targets = (target,)
            case _:
                return accepted
        if accepted:
            rule = self.job(event.job).spec.node_rule
            staying = self.job(event.job).running_on if isinstance(event, c.TransitionPlanned) else ()
            assert all(is_allowed(rule, before[name]) for name in targets if name not in staying), event
        return accepted

    def step(self, received: Received[c.ClusterEvent]) -> Sequence[MintedDecision]:
        """Whether the record is a plan for a node that its job may not run on, which none of the deciders makes."""
        decided = super().step(received)
        assert self.view.refused != NoRoom.NOT_ALLOWED, received.event
        return decided


@pytest.mark.parametrize("policy", PARAMETERS)
@given(acts=st.lists(ACTS, min_size=5, max_size=30))
@settings(max_examples=scaled(60), deadline=None)
def test_jobs_are_placed_where_they_may_run(policy: str, acts: list[tuple[object, ...]]) -> None:
    """And at the end none waits for room that has a node which it may run on with room."""
    deciders: list[ClusterDecider] = [
        Placer(),
        GangScheduler(),
        PreemptionPlanner(),
        NodeScorer(),
        Rebalancer(),
        SteepestPlanner(),
    ]
    driver = ChosenNodes(*deciders, w1=1_000, w2=600, w3=600)
    driver.fold(c.PoolConfigured(parameters=PARAMETERS[policy]))
    for number, (kind, *what) in enumerate(acts):
        running = [job.name for job in driver.active() if job.phase is Phase.RUNNING]
        match kind, what:
            case "submit", [int() as cpu_m, rule, int() as priority]:
                driver.fold(submitted(f"job-{number}", cpu_m, node_rule=rule, priority=priority))
            case "terms", [str() as name, labels, taints]:
                driver.fold(said(driver.node(name), name, labels, taints))  # type: ignore[arg-type]
            case "gang", [int() as one, int() as other, rule]:
                driver.fold(submitted(f"job-{number}", roles=(workers(one, other),), node_rule=rule))
            case "tick", [int() as ms]:
                driver.tick(ms)
            case str(), [int() as which] if running:
                _act(driver, kind, running[which % len(running)])
        driver.deliver(everything=True)
        check_view(driver.view)
    for _ in range(40):
        driver.tick(1_000)
        driver.deliver(everything=True)
    waiting = [job for job in driver.active() if job.is_queued]
    stand = standings(driver.view)
    for job in waiting:
        allowed = [node for node in driver.view.nodes if node.is_open and is_allowed(job.spec.node_rule, node)]
        assert choose(job.spec.all_roles, Slots({node.name: node.free for node in allowed})) is None, job
        assert stand[job.name].reason
        assert allowed or "may not run on" in stand[job.name].reason


def workers(one: int, other: int) -> Role:
    """The role of a gang that begins with the larger number of replicas, and can run with from the smaller to one more."""
    most = max(one, other)
    return Role(name="worker", replicas=most, min=min(one, other), max=most + 1, requests=Resources(100))


def _act(driver: DeciderDriver, kind: str, name: str) -> None:
    job = driver.job(name)
    match kind:
        case "carry":
            driver.carry_out(name)
        case "converge" if job.alive and not job.spec.is_gang:
            driver.feed(grown(name), category(name, c.Category.CONVERGED), requested(name))
        case "exit" if job.alive and job.plan is None and not job.spec.is_gang:
            driver.fold(driver.stopped(name, 0))
