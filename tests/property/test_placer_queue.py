"""The placer's memory of jobs that do not fit changes no decision, under any sequence of node and job events."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.naive import DriverBesideNaive

from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters
from steepest.policies.placement.placer import Placer
from steepest.policies.placement.room import Room
from steepest.testing.scenarios.folded_pool import cancelled, joined, placement, submitted
from steepest.view.state import Phase

NODES = st.sampled_from(["w1", "w2", "w3"])
CPU_M = st.sampled_from([100, 300, 500, 900, 1_500])
ACTS = st.one_of(
    st.tuples(st.just("submit"), CPU_M, st.none() | NODES | st.just("w9"), st.integers(0, 1)),
    st.tuples(st.just("node"), NODES, CPU_M, st.sampled_from([True, True, True, False])),
    st.tuples(st.just("lost"), NODES),
    st.tuples(st.just("tick"), st.sampled_from([1_000, 3_000, 6_000])),
    st.tuples(st.just("carry"), st.integers(0, 5)),
    st.tuples(st.just("exit"), st.integers(0, 5), st.sampled_from([0, 1, 85, None])),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
    st.tuples(st.just("other"), st.integers(0, 5), NODES),
    st.tuples(st.just("lag"), st.integers(0, 6)),
    st.tuples(st.just("policy"), st.sampled_from(["spread", "flowcon2"])),
    st.tuples(st.just("forget")),
)


@given(st.lists(ACTS, min_size=10, max_size=60), st.booleans())
@settings(max_examples=150, deadline=None)
def test_the_queue_is_gone_through_as_if_all_of_it_were(acts: list[tuple[object, ...]], remembers_little: bool) -> None:  # noqa: FBT001
    """At every record the placer decides what one does that searches every node for every job."""
    lag = [0]
    driver = DriverBesideNaive(Placer(), delay=lambda: lag[0], w1=1_000, w2=500)
    if remembers_little:
        driver.view.nodes.changes._kept = driver.view.jobs.queue.news._kept = 2
    for number, (kind, *what) in enumerate(acts):
        jobs = sorted(job.name for job in driver.active())
        match kind, what:
            case "submit", [int() as cpu_m, first_node, retries]:
                driver.fold(submitted(f"job-{number}", cpu_m, first_node=first_node, retries=retries))
            case "node", [str() as name, int() as cpu_m, bool() as takes_jobs]:
                driver.fold(joined(name, cpu_m, takes_jobs=takes_jobs))
            case "lost", [str() as name]:
                driver.fold(c.NodeLost(node=name, silent_ms=1))
            case "tick", [int() as ms]:
                driver.tick(ms)
            case "lag", [int() as records]:
                lag[0] = records
            case "policy", [str() as name]:
                driver.fold(c.PoolConfigured(parameters=PoolParameters(placement=name)))
            case "forget", []:
                driver.deciders[0]._room = None  # type: ignore[attr-defined]
            case _, [int() as which, *more] if jobs:
                act(driver, str(kind), jobs[which % len(jobs)], more, number)


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
    room = Room(one.view, one.deciders[0].state)
    assert room.is_of(one.view, one.deciders[0].state)
    assert not room.is_of(other.view, one.deciders[0].state)
