"""DRAGON under any sequence of jobs, ends and passing time: what must hold under any load."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.parameters import PoolParameters
from steepest.events.registry import FLAGS, READS
from steepest.log.base import TopicPartition
from steepest.policies.dragon.gang_scheduler import GangScheduler
from steepest.policies.named import under
from steepest.policies.placement.placer import Placer
from steepest.runtime.engine import PoolEngine
from steepest.testing.contracts.view_promises import check_view
from steepest.testing.scenarios.folded_pool import submitted
from steepest.testing.system.driver import DeciderDriver
from steepest.view.state import Phase

ACTS = st.one_of(
    st.tuples(st.just("gang"), st.integers(1, 4), st.integers(0, 4), st.booleans(), st.booleans()),
    st.tuples(st.just("carry"), st.integers(0, 5)),
    st.tuples(st.just("fail"), st.integers(0, 5)),
    st.tuples(st.just("exit"), st.integers(0, 5)),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.sampled_from([2, 20, 70])),
)
NODE_M = 400


def play(policy: str, acts: list[tuple[object, ...]], delay: int) -> DeciderDriver:
    """Three nodes of four places, and what the placer and the gang-scheduler make of the acts."""
    driver = DeciderDriver(Placer(), GangScheduler(), delay=delay, w1=NODE_M, w2=NODE_M, w3=NODE_M)
    driver.fold(c.PoolConfigured(reads=READS, flags=tuple(FLAGS), parameters=under(policy, PoolParameters())))
    for number, (kind, *what) in enumerate(acts):
        jobs = [job.name for job in driver.active() if job.phase is Phase.RUNNING]
        match kind, what:
            case "gang", [int() as fewest, int() as more, bool() as serves, bool() as loose]:
                workers = c.Role(
                    name="worker",
                    replicas=fewest + more // 2,
                    min=fewest,
                    max=fewest + more,
                    requests=Resources(cpu_m=100),
                    may_leave=loose,
                )
                success = c.SuccessRule.CHIEF if loose else c.SuccessRule.ALL
                server = (c.Role(name="ps", requests=Resources(cpu_m=100)),) if serves else ()
                mode = CheckpointMode.ON_REQUEST
                driver.fold(submitted(f"job-{number}", mode=mode, roles=(*server, workers), success=success))
            case "wait", [int() as seconds]:
                for _ in range(seconds):
                    driver.tick()
            case str(), [int() as which] if jobs:
                act_on(driver, kind, jobs[which % len(jobs)])
        driver.deliver(everything=True)
        check(driver)
    return driver


def act_on(driver: DeciderDriver, kind: str, name: str) -> None:
    """Something happens to a job that runs or is about to."""
    job = driver.job(name)
    plan = driver.view.plan_of(job)
    match kind:
        case "carry":
            driver.carry_out(name)
        case "fail" if plan is not None and plan.step is not None and not plan.waits and not plan.doomed:
            driver.fail(name)
        case "exit" if plan is None:
            for index in range(len(job.replicas)):
                driver.fold(driver.stopped(name, 0, replica=index))
        case "cancel":
            driver.fold(c.JobCancelRequested(job=name, request=f"cancel-{name}"))
            driver.carry_out(name)


def check(driver: DeciderDriver) -> None:
    """No node holds more than it has, and no gang is below what it can run with."""
    check_view(driver.view)
    for node in driver.view.nodes:
        assert node.free.cpu_m >= 0
    for job in driver.active():
        if job.alive and job.plan is None:
            assert job.spec.allows(job.running_sizes) or any(replica.ended for replica in job.replicas)


@pytest.mark.parametrize("policy", ["dragon", "dragon-paper-era", "dragon-fixed"])
@given(acts=st.lists(ACTS, min_size=5, max_size=30), delay=st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_whatever_happens(policy: str, acts: list[tuple[object, ...]], delay: int) -> None:
    """Capacities and sizes hold at every step, and a replay decides the same."""
    driver = play(policy, acts, delay)

    engine = PoolEngine([Placer(), GangScheduler()], TopicPartition("cluster"), "pool")
    again = [one.event for received in driver.log for one in engine.step(received)]
    assert again == driver.decided


@given(acts=st.lists(ACTS, min_size=5, max_size=30))
@settings(max_examples=25, deadline=None)
def test_scaling_goes_one_way_without_new_work(acts: list[tuple[object, ...]]) -> None:
    """With nothing new, a gang that grew does not shrink, nor the other way round, and the pool comes to rest."""
    driver = play("dragon-fixed", acts, 0)
    ways: dict[str, set[bool]] = {}
    for _ in range(300):
        for made in driver.ask(c.Tick(counted_ms=driver.view.counted_ms + 1_000)):
            if isinstance(made, c.TransitionPlanned):
                ways.setdefault(made.job, set()).add(len(made.nodes) > len(made.sources))
        for job in driver.active():
            if job.plan:
                driver.carry_out(job.name)
    assert all(len(way) == 1 for way in ways.values())
    before = len(driver.decided)
    for _ in range(100):
        driver.tick()
    assert driver.decided[before:] == []


@given(sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=8))
@settings(max_examples=25, deadline=None)
def test_who_starves_is_helped(sizes: list[tuple[int, int]]) -> None:
    """A job that has room once others are at their fewest waits for 30 s, a pass, and what their scaling takes, at most."""
    acts: list[tuple[object, ...]] = []
    for fewest, more in sizes:
        acts += [("gang", fewest, more, False, bool(len(acts) % 4)), ("wait", 2)]
    driver = play("dragon-fixed", acts, 0)
    for _ in range(60):
        driver.tick()
        for job in driver.active():
            if job.plan:
                driver.carry_out(job.name)
    gangs = driver.deciders[1]
    assert isinstance(gangs, GangScheduler)
    index = gangs._gangs_in(driver.view)
    index.look()
    for job in driver.view.jobs.queue:
        role = job.spec.all_roles[0]
        assert index.most.of(role.requests) < role.fewest, f"{job.name} could have room"
