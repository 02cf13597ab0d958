"""The placer's memory of jobs that do not fit changes no decision, under any sequence of node and job events."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled
from tests.harness.scenarios.folded_pool import cancelled, joined, placement, submitted
from tests.property.naive import DriverBesideNaive
from tests.property.node_terms import LABELS, RULES, TAINTS, said

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, QueueLimits, QueueParameters
from steepest.events.requests import Role
from steepest.policies.placement.placer import Placer
from steepest.policies.placement.queue_walk import QueueWalk
from steepest.policies.queueing.ranks import QUEUE_POLICIES
from steepest.view.state import Phase

NODES = st.sampled_from(["w1", "w2", "w3"])
CPU_M = st.sampled_from([100, 300, 500, 900, 1_500])
ROLES = st.tuples(CPU_M, st.integers(1, 4), st.integers(1, 4))
URGENCY = st.integers(-1, 1)
QUEUES = st.sampled_from(["default", "other"])
USERS = ("", "alice", "bob")
AMOUNTS = {"replicas": st.none() | st.integers(0, 4), "cpu_m": st.none() | st.integers(0, 900)}
LIMITS = st.lists(
    st.builds(QueueLimits, queue=QUEUES, **AMOUNTS)
    | st.builds(QueueLimits, user=st.sampled_from(["alice", "*"]), jobs=st.none() | st.integers(0, 4), **AMOUNTS),
    max_size=2,
)
PARAMETERS = st.builds(
    PoolParameters,
    placement=st.sampled_from(["spread", "flowcon2"]),
    queueing=st.builds(
        QueueParameters,
        policy=st.sampled_from([*QUEUE_POLICIES, "lottery"]),
        blocking=st.booleans(),
        limits=LIMITS.map(tuple),
    ),
)
ACTS = st.one_of(
    st.tuples(st.just("submit"), CPU_M, st.none() | NODES | st.just("w9"), st.integers(0, 1)),
    st.tuples(st.just("node"), NODES, CPU_M, st.sampled_from([True, True, True, False])),
    st.tuples(st.just("terms"), NODES, LABELS, TAINTS),
    st.tuples(st.just("choose"), CPU_M, RULES, URGENCY),
    st.tuples(st.just("lost"), NODES),
    st.tuples(st.just("tick"), st.sampled_from([1_000, 3_000, 6_000])),
    st.tuples(st.just("carry"), st.integers(0, 5)),
    st.tuples(st.just("exit"), st.integers(0, 5), st.sampled_from([0, 1, 85, None])),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
    st.tuples(st.just("other"), st.integers(0, 5), NODES),
    st.tuples(st.just("lag"), st.integers(0, 6)),
    st.tuples(st.just("parameters"), PARAMETERS),
    st.tuples(st.just("gang"), st.lists(ROLES, min_size=1, max_size=2), st.none() | NODES, URGENCY, QUEUES, RULES),
    st.tuples(st.just("forget")),
)


@given(st.lists(ACTS, min_size=10, max_size=60), st.booleans())
@settings(max_examples=scaled(150), deadline=None)
def test_the_queue_is_gone_through_as_if_all_of_it_were(acts: list[tuple[object, ...]], remembers_little: bool) -> None:  # noqa: FBT001
    """At every record the placer decides what one does that searches every node for every job."""
    lag = [0]
    driver = DriverBesideNaive(Placer(), delay=lambda: lag[0], w1=1_000, w2=500)
    driver.fold(configured(PoolParameters()))
    if remembers_little:
        driver.view.nodes.changes._kept = driver.view.jobs.queue.changes._kept = 2
    for number, (kind, *what) in enumerate(acts):
        jobs, user = sorted(job.name for job in driver.active()), USERS[number % len(USERS)]
        match kind, what:
            case "submit", [int() as cpu_m, first_node, retries]:
                driver.fold(submitted(f"job-{number}", cpu_m, first_node=first_node, retries=retries, user=user))
            case (("node" | "terms" | "lost"), [str() as name, *more]):
                driver.fold(about_node(driver, name, more))
            case "choose", [int() as cpu_m, rule, int() as priority]:
                driver.fold(submitted(f"job-{number}", cpu_m, node_rule=rule, priority=priority, user=user))
            case "tick", [int() as ms]:
                driver.tick(ms)
            case "lag", [int() as records]:
                lag[0] = records
            case "gang", [list() as roles, first_node, int() as priority, str() as queue, rule]:
                spec = {"first_node": first_node, "priority": priority, "queue": queue, "node_rule": rule, "user": user}
                driver.fold(gang(f"job-{number}", roles, **spec))
            case "parameters", [PoolParameters() as parameters]:
                driver.fold(configured(parameters))
            case "forget", []:
                driver.deciders[0]._walk = None  # type: ignore[attr-defined]
            case _, [int() as which, *more] if jobs:
                act(driver, str(kind), jobs[which % len(jobs)], more, number)


def about_node(driver: DriverBesideNaive, name: str, more: list[Any]) -> c.ClusterEvent:
    """A node is lost, has another size, or says something else of itself."""
    match more:
        case [int() as cpu_m, bool() as takes_jobs]:
            return joined(name, cpu_m, takes_jobs=takes_jobs)
        case [labels, taints]:
            return said(driver.view.nodes.get(name), name, labels, taints)
    return c.NodeLost(node=name, silent_ms=1)


def configured(parameters: PoolParameters) -> c.PoolConfigured:
    """These parameters, in a pool that runs gangs."""
    return c.PoolConfigured(parameters=parameters)


def gang(name: str, roles: list[tuple[int, int, int]], **spec: Any) -> c.JobSubmitted:
    """A job with roles of these requests; each has the larger number of replicas, and can run with the smaller."""
    made = [
        Role(name=f"r{index}", replicas=max(one, other), min=min(one, other), requests=Resources(cpu_m=cpu_m))
        for index, (cpu_m, one, other) in enumerate(roles)
    ]
    return submitted(name, roles=tuple(made), **spec)


def act(driver: DriverBesideNaive, kind: str, name: str, more: list[object], number: int) -> None:
    """Something happens to a job, if it can."""
    job = driver.job(name)
    match kind, more:
        case "carry", []:
            driver.carry_out(name)
        case "exit", [status] if job.alive:
            driver.fold(driver.stopped(name, status))  # type: ignore[arg-type]
        case "cancel", []:
            driver.fold(cancelled(name))
        case "other", [str() as node] if job.phase is Phase.WAITING:
            driver.fold(placement(name, node, plan=f"other-{number}", incarnation=job.incarnation))


def test_a_memory_is_of_one_view() -> None:
    """A placer that continues on another view starts with an empty memory."""
    one, other = DriverBesideNaive(Placer(), w1=100), DriverBesideNaive(Placer(), w1=100)
    walk = QueueWalk(one.view, one.deciders[0].state)
    assert walk.is_of(one.view, one.deciders[0].state)
    assert not walk.is_of(other.view, one.deciders[0].state)
