"""Unsound logs about the limits of queues and nodes: one anomaly each, which its checker must find."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.harness.scenarios.log_builder import BECAUSE, LogBuilder
from tests.harness.scenarios.verdicts import broken, holds

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, QueueLimits, QueueParameters
from steepest.invariants.checkers.capacity import Capacity
from steepest.invariants.checkers.queue_limits import QueueLimitsKept

from .test_gangs import start


def limited(**limits: Any) -> c.PoolConfigured:
    """The queue ``paper`` has these limits."""
    queueing = QueueParameters(limits=(QueueLimits(queue="paper", **limits),))
    return c.PoolConfigured(parameters=PoolParameters(queueing=queueing))


def asked(job: str, replicas: int = 1, cpu_m: int = 100) -> c.JobSubmitted:
    """A job of that queue."""
    roles = (c.Role(name="worker", replicas=replicas, min=1, max=9, requests=Resources(cpu_m=cpu_m)),)
    return c.JobSubmitted(job=job, request=f"r-{job}", spec=c.JobSpec(command=("x",), roles=roles, queue="paper"))


def planned(job: str, *nodes: str) -> c.PlacementPlanned:
    """A plan to place it."""
    return c.PlacementPlanned(
        plan=f"place-{job}", job=job, incarnation=0, nodes=nodes, sizes=(len(nodes),), because=BECAUSE
    )


def scaled(job: str, *nodes: str, to: tuple[str, ...]) -> c.TransitionPlanned:
    """A plan to scale it, from its first incarnation."""
    return c.TransitionPlanned(
        plan=f"scale-{job}",
        job=job,
        incarnation=1,
        kind=c.Transition.SCALE,
        sources=nodes,
        nodes=to,
        sizes=(len(to),),
        because=BECAUSE,
    )


def stopped(job: str, *nodes: str) -> tuple[c.ClusterEvent, ...]:
    """The plan that scales it has stopped it."""
    begun = c.StepBegun(
        plan=f"scale-{job}", step=c.Step.STOP, attempt=1, job=job, incarnation=1, node=nodes[0], nodes=nodes
    )
    return begun, c.JobStopped(plan=f"scale-{job}", attempt=1, job=job, incarnation=1, exit_status=85, step=1)


def story(*events: c.ClusterEvent) -> LogBuilder:
    """A pool with two nodes, and what happens there."""
    return LogBuilder().opened(n1=1_000, n2=1_000).add(*events)


def test_a_plan_that_exceeds_the_limit_must_not_begin() -> None:
    """The second of two jobs starts, where the limit leaves room for one."""
    events = (
        limited(replicas=1),
        asked("a"),
        asked("b"),
        planned("a", "n1"),
        planned("b", "n2"),
        *start("place-a", "a", "n1"),
    )
    assert holds(QueueLimitsKept, story(*events)) == ""
    evidence, message = broken(QueueLimitsKept, story(*events, *start("place-b", "b", "n2")))
    assert message == "queue paper holds 2 of 1 (replicas) with job b"
    assert evidence == (5 + events.index(events[4]), 5 + len(events))


def test_it_does_not_matter_which_of_two_plans_begins_first() -> None:
    """The one that was planned first was valid: the breach is the other's, which began before it."""
    events = (limited(cpu_m=150), asked("a"), asked("b"), planned("a", "n1"), planned("b", "n2"))
    evidence, _ = broken(QueueLimitsKept, story(*events, *start("place-b", "b", "n2"), *start("place-a", "a", "n1")))
    assert evidence[0] == 5 + events.index(events[4])


@pytest.mark.parametrize("ended", [True, False])
def test_what_has_ended_is_not_counted(ended: bool) -> None:  # noqa: FBT001 - a case of the test
    """A job that is over gives back what it held; one whose process is only silent does not."""
    over = (
        c.ReplicaStopped(job="a", replica=0, incarnation=1, node="n1", exit_status=0),
        c.JobEnded(job="a", outcome=c.Outcome.FINISHED, exit_status=0),
    )
    events = (limited(replicas=1), asked("a"), asked("b"), planned("a", "n1"), *start("place-a", "a", "n1"))
    rest = (*(over if ended else ()), planned("b", "n2"), *start("place-b", "b", "n2"))
    (holds if ended else broken)(QueueLimitsKept, story(*events, *rest))


def test_a_limit_that_is_lowered_breaks_nothing_until_the_queue_gets_more() -> None:
    """What was planned before may begin after it; what is planned after it may not."""
    before = (limited(replicas=2), asked("a"), asked("b"), asked("d"), planned("a", "n1"), planned("b", "n2"))
    lowered = (*before, limited(replicas=1), *start("place-a", "a", "n1"), *start("place-b", "b", "n2"))
    holds(QueueLimitsKept, story(*lowered))
    _, message = broken(QueueLimitsKept, story(*lowered, planned("d", "n1"), *start("place-d", "d", "n1")))
    assert message == "queue paper holds 3 of 1 (replicas) with job d"


def test_a_limit_that_is_set_later_counts_what_runs_already() -> None:
    """A pool without limits gets some: from there on, no plan may exceed them."""
    before = (
        c.PoolConfigured(),
        asked("a"),
        planned("a", "n1"),
        *start("place-a", "a", "n1"),
    )
    later = (limited(cpu_m=150), asked("b"), planned("b", "n2"))
    holds(QueueLimitsKept, story(*before, *later))
    broken(QueueLimitsKept, story(*before, *later, *start("place-b", "b", "n2")))


def test_a_gang_that_is_scaled_up_is_judged_by_what_it_gets() -> None:
    """Within the limit it may become larger; beyond it must not, and smaller always, also where that goes wrong."""
    begin = (limited(replicas=3), asked("a", 2), planned("a", "n1", "n1"), *start("place-a", "a", "n1", "n1"))
    up, more = ("n1", "n1", "n2"), ("n1", "n1", "n2", "n2")
    holds(QueueLimitsKept, story(*begin, scaled("a", "n1", "n1", to=up), *stopped("a", "n1", "n1")))
    broken(QueueLimitsKept, story(*begin, scaled("a", "n1", "n1", to=more), *stopped("a", "n1", "n1")))
    down = (limited(replicas=1), scaled("a", "n1", "n1", to=("n1",)), *stopped("a", "n1", "n1"))
    back = msgspec.structs.replace(start("scale-a", "a", "n1", "n1", incarnation=2)[0], attempt=2)
    holds(QueueLimitsKept, story(*begin, *down, back))


def test_what_users_hold_and_have_is_judged_likewise() -> None:
    """Each one's own: memory beyond the limit, and one job too many; a job that was over when it came is not counted."""

    def of(job: str, user: str) -> c.JobSubmitted:
        spec = c.JobSpec(command=("x",), requests=Resources(cpu_m=1, memory_mib=600))
        return c.JobSubmitted(job=job, request=f"r-{job}", spec=spec, user=user)

    def admitted(*jobs: str) -> list[c.ClusterEvent]:
        return [c.JobAdmitted(job=job, request=f"r-{job}") for job in jobs]

    def limits(**amounts: Any) -> c.PoolConfigured:
        return c.PoolConfigured(
            parameters=PoolParameters(queueing=QueueParameters(limits=(QueueLimits(user="*", **amounts),)))
        )

    two = (of("a", "alice"), of("b", "alice"), of("o", "bob"))
    runs = (*two, planned("a", "n1"), planned("b", "n2"), planned("o", "n2"))
    starts = (*start("place-a", "a", "n1"), *start("place-o", "o", "n2"))
    holds(QueueLimitsKept, story(limits(memory_mib=1_000), *runs, *starts))
    _, message = broken(QueueLimitsKept, story(limits(memory_mib=1_000), *runs, *starts, *start("place-b", "b", "n2")))
    assert message == "user alice holds 1200 of 1000 (memory_mib) with job b"

    holds(QueueLimitsKept, story(limits(jobs=1), *two, *admitted("a", "o")))
    _, message = broken(QueueLimitsKept, story(limits(jobs=1), *two, *admitted("a", "o", "b")))
    assert message == "user alice has 2 jobs of 1 with job b"
    over = (c.JobEnded(job="a", outcome=c.Outcome.FINISHED, exit_status=0), *admitted("b"))
    holds(QueueLimitsKept, story(limits(jobs=1), *two, *admitted("a", "o"), *over))
    holds(QueueLimitsKept, story(*two, limits(jobs=1), *admitted("a", "b")))


def test_a_node_takes_a_limited_number_of_replicas() -> None:
    """More than it takes are too many, however little each asks for."""
    few = c.NodeJoined(node="n3", capacity=Resources(cpu_m=1_000, replicas=2))
    three = ("n3", "n3", "n3")
    events = (few, asked("a", 3, cpu_m=1), planned("a", *three), *start("place-a", "a", *three))
    assert "3 replicas of 1000m CPU, 0 MiB, 0 GPUs, 2 replicas" in broken(Capacity, story(*events))[1]


def test_extended_resources_of_a_node_are_known() -> None:
    """A job that asks for a slice of a GPU fits a node that has one."""
    sliced = (("nvidia.com/mig-1g.5gb", 1),)
    node = c.NodeJoined(node="n3", capacity=Resources(cpu_m=1_000, extended=sliced))
    spec = c.JobSpec(command=("x",), requests=Resources(cpu_m=100, extended=sliced))
    one = c.JobSubmitted(job="a", request="r", spec=spec)
    holds(Capacity, story(node, one, planned("a", "n3"), *start("place-a", "a", "n3")))
