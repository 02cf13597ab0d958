"""DRAGON under any sequence of jobs, ends and passing time: what must hold under any load."""

from __future__ import annotations

from collections.abc import Container, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled
from tests.harness.scenarios.folded_pool import submitted
from tests.harness.system.driver import DeciderDriver
from tests.harness.view_promises import check_view

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, LabelOperator, LabelRequirement, NodeRule, Resources
from steepest.events.parameters import PoolParameters, QueueLimits, QueueParameters
from steepest.log.base import TopicPartition
from steepest.policies.dragon.gang_scheduler import GangScheduler
from steepest.policies.named import under
from steepest.policies.placement.placer import Placer
from steepest.runtime.engine import PoolEngine
from steepest.view.places.node_rules import is_allowed
from steepest.view.state import Job, Phase

OTHER_ACTS = (
    st.tuples(st.just("carry"), st.integers(0, 5)),
    st.tuples(st.just("fail"), st.integers(0, 5)),
    st.tuples(st.just("exit"), st.integers(0, 5)),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.sampled_from([2, 20, 70])),
)


def in_zone(*names: str) -> NodeRule:
    """Only nodes of these zones."""
    return NodeRule(requires=(LabelRequirement(key="zone", operator=LabelOperator.IN, values=names),))


ZONES = {"w1": "a", "w2": "a", "w3": "b"}
NO_RULE: st.SearchStrategy[NodeRule | None] = st.none()
RULES = st.sampled_from([None, None, in_zone("a"), in_zone("b"), in_zone("nowhere")])


def acts_with(
    servers: st.SearchStrategy[bool], rules: st.SearchStrategy[NodeRule | None] = NO_RULE
) -> st.SearchStrategy[tuple[object, ...]]:
    """What may happen: a gang comes, with a parameter server or without one, and with a rule of nodes, or something else."""
    sizes = (st.integers(1, 4), st.integers(0, 4))
    return st.one_of(st.tuples(st.just("gang"), *sizes, servers, st.booleans(), rules), *OTHER_ACTS)


ACTS = acts_with(st.booleans())
ACTS_WITH_RULES = acts_with(st.booleans(), RULES)
LIMITED_ACTS = ("submit", "submit", "carry", "exit", "cancel", "tick")
ACTS_WITHOUT_SERVERS = acts_with(st.sampled_from([False]))
RESTS_IN_S = 300
"""Longer than all that any variant waits for, one after the other."""

NODE_M = 400


def play(policy: str, acts: list[tuple[object, ...]], delay: int) -> DeciderDriver:
    """Three nodes of four places, and what the placer and the gang-scheduler make of the acts."""
    driver = DeciderDriver(Placer(), GangScheduler(), delay=delay, w1=NODE_M, w2=NODE_M, w3=NODE_M)
    driver.fold(c.PoolConfigured(parameters=under(policy, PoolParameters())))
    for node, zone in ZONES.items():
        driver.fold(c.NodeJoined(node=node, capacity=Resources(cpu_m=NODE_M), labels={"zone": zone}))
    for number, (kind, *what) in enumerate(acts):
        jobs = [job.name for job in driver.active() if job.phase is Phase.RUNNING]
        match kind, what:
            case "gang", [int() as fewest, int() as more, bool() as serves, bool() as loose, rule]:
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
                roles = (*server, workers)
                driver.fold(submitted(f"job-{number}", mode=mode, roles=roles, success=success, node_rule=rule))
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
        case "exit" if plan is None and job.alive:
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
        assert all(is_allowed(job.spec.node_rule, driver.node(name)) for name in job.running_on), job
        if job.alive and job.plan is None:
            assert job.spec.allows(job.running_sizes) or any(replica.ended for replica in job.replicas)


@pytest.mark.parametrize("policy", ["dragon", "dragon-paper-era", "dragon-fixed"])
@given(acts=st.lists(ACTS_WITH_RULES, min_size=5, max_size=30), delay=st.integers(0, 3))
@settings(max_examples=scaled(25), deadline=None)
def test_whatever_happens(policy: str, acts: list[tuple[object, ...]], delay: int) -> None:
    """Capacities, sizes and rules of nodes hold at every step; a replay decides the same, and so does one without memory."""
    driver = play(policy, acts, delay)

    check_decided_again(driver)
    check_decided_again(driver, forgets=range(len(driver.log)))


def check_decided_again(driver: DeciderDriver, forgets: Container[int] = ()) -> None:
    """A replay decides the same, also where the gang-scheduler has only its state left before some records."""
    gangs, decided = GangScheduler(), []
    engine = PoolEngine([Placer(), gangs], TopicPartition("cluster"), "pool")
    for received in driver.log:
        if received.offset in forgets:
            gangs._walk = gangs._index = None
        decided += [one.event for one in engine.step(received)]
    assert decided == driver.decided


@given(
    acts=st.lists(st.tuples(st.sampled_from(LIMITED_ACTS), st.integers(0, 7)), min_size=10, max_size=60),
    most_m=st.integers(1, 8).map(lambda places: places * 100),
    delay=st.integers(0, 40),
    forgets=st.sets(st.integers(0, 400), min_size=1, max_size=8),
)
@settings(max_examples=scaled(300), deadline=None)
def test_limits_and_late_decisions(acts: list[tuple[str, int]], most_m: int, delay: int, forgets: set[int]) -> None:
    """A replay decides the same, and so does one that forgets now and then, where limits hold and plans come back late."""
    driver = DeciderDriver(Placer(), GangScheduler(), delay=delay, w1=NODE_M, w2=NODE_M)
    queueing = QueueParameters(limits=(QueueLimits(queue="limited", cpu_m=most_m),))
    driver.fold(c.PoolConfigured(parameters=under("dragon", PoolParameters(queueing=queueing))))
    for number, (kind, which) in enumerate(acts):
        jobs = driver.active()
        match kind:
            case "submit":
                worker = c.Role(name="worker", replicas=1 + which % 3, requests=Resources(cpu_m=100 + which // 4 * 100))
                queue = "default" if which % 3 == 1 else "limited"
                driver.fold(submitted(f"job-{number}", roles=(worker,), queue=queue))
            case "tick":
                driver.tick(1_000 * (1 + which))
            case _ if jobs:
                act_on(driver, kind, jobs[which % len(jobs)].name)
    driver.deliver(everything=True)
    for offsets in ((), forgets, range(len(driver.log))):
        check_decided_again(driver, offsets)


@given(acts=st.lists(ACTS, min_size=5, max_size=30))
@settings(max_examples=scaled(25), deadline=None)
def test_scaling_goes_one_way_without_new_work(acts: list[tuple[object, ...]]) -> None:
    """With nothing new, a gang that grew does not shrink, nor the other way round, and the pool comes to rest."""
    driver = play("dragon-fixed", acts, 0)
    ways: dict[str, set[bool]] = {}
    for made in to_rest(driver):
        ways.setdefault(made.job, set()).add(grows(made))
    assert all(len(way) == 1 for way in ways.values())


@given(acts=st.lists(ACTS, min_size=5, max_size=30))
@settings(max_examples=scaled(20), deadline=None)
def test_version_09_comes_to_rest(acts: list[tuple[object, ...]]) -> None:
    """With nothing new, a gang may grow and then shrink for a job, or shrink by too many and grow; the pool comes to rest.

    Growth looks at starving jobs only (``starving_stops_growth``), and freed room is not promised (``freed_is_left``): a job
    that waits may so turn a gang's way, but none turns it again and again.
    """
    driver = play("dragon", acts, 0)
    starving_ms = driver.view.parameters.dragon.starving_ms
    for made in to_rest(driver):
        if not grows(made):
            assert made.room_for is not None
            assert driver.view.counted_ms - waits_since(driver.job(made.room_for)) >= starving_ms


@given(acts=st.lists(ACTS_WITHOUT_SERVERS, min_size=5, max_size=30))
@settings(max_examples=scaled(20), deadline=None)
def test_the_paper_s_era_comes_to_rest_without_servers(acts: list[tuple[object, ...]]) -> None:
    """With nothing new, where no gang has a parameter server; with servers it need not (``test_dragon_advance``)."""
    for made in to_rest(play("dragon-paper-era", acts, 0)):
        assert grows(made) == (made.room_for is None)


def to_rest(driver: DeciderDriver) -> Iterator[c.TransitionPlanned]:
    """Let time pass, carry out what is planned, give what is scaled; at the end nothing more is decided."""
    for _ in range(RESTS_IN_S):
        made = driver.ask(c.Tick(counted_ms=driver.view.counted_ms + 1_000))
        yield from (one for one in made if isinstance(one, c.TransitionPlanned))
        for job in driver.active():
            if job.plan:
                before = len(driver.decided)
                driver.carry_out(job.name)
                yield from (one for one in driver.decided[before:] if isinstance(one, c.TransitionPlanned))
    before = len(driver.decided)
    for _ in range(100):
        driver.tick()
    assert driver.decided[before:] == []


def grows(made: c.TransitionPlanned) -> bool:
    """Whether a gang gets more workers by a plan."""
    return len(made.nodes) > len(made.sources)


def waits_since(job: Job) -> int:
    """Counted time of its submission, or of the end of what held it back."""
    return max(job.submitted_counted_ms, job.suspended_counted_ms, job.not_before_counted_ms)


@pytest.mark.parametrize("policy", ["dragon", "dragon-fixed"])
@given(sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=8))
@settings(max_examples=scaled(20), deadline=None)
def test_who_starves_is_helped(policy: str, sizes: list[tuple[int, int]]) -> None:
    """A job that has room once others are at their fewest waits for 30 s, a pass, and what their scaling takes, at most.

    In version 0.9 only the head of the queue: while it cannot be helped, none behind it is (``head_blocks``).
    """
    acts: list[tuple[object, ...]] = []
    for fewest, more in sizes:
        acts += [("gang", fewest, more, False, bool(len(acts) % 4), None), ("wait", 2)]
    driver = play(policy, acts, 0)
    for _ in range(60):
        driver.tick()
        for job in driver.active():
            if job.plan:
                driver.carry_out(job.name)
    gangs = driver.deciders[1]
    assert isinstance(gangs, GangScheduler)
    index = gangs._gangs_in(driver.view)
    index.look()
    waiting = list(driver.view.jobs.queue)
    for job in waiting[:1] if driver.view.parameters.dragon.head_blocks else waiting:
        role = job.spec.all_roles[0]
        assert index.most_for(None).of(role.requests) < role.fewest, f"{job.name} could have room"
