"""Fair sharing between users: the one who has used less is next, and use counts half after each half-life."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled
from tests.harness.scenarios.folded_pool import FoldedPool, joined, placement, submitted
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, QueueParameters
from steepest.policies.placement.placer import Placer
from steepest.policies.placement.standing import standings
from steepest.policies.queueing.ranks import rule_for
from steepest.view.cluster_view import ClusterView
from steepest.view.queue_use import GPU_CORES, USERS_KEPT

HALF_LIFE_MS = 600_000
ALICE, BOB = "user alice", "user bob"


def fair(half_life_ms: int = HALF_LIFE_MS) -> c.PoolConfigured:
    """A pool that shares fairly."""
    queueing = QueueParameters(policy="fair", half_life_ms=half_life_ms)
    return c.PoolConfigured(parameters=PoolParameters(queueing=queueing))


@given(st.integers(1, 100), st.integers(1, 4), st.integers(1, 300), st.integers(0, 99))
@settings(max_examples=scaled(40), deadline=None)
def test_who_submits_one_job_after_a_hundred_of_another_is_next(many: int, slots: int, ran_s: int, lot: int) -> None:
    """However many the other one has waiting, and whichever of those that run ends first."""
    driver = DeciderDriver(Placer(), w1=100 * slots)
    driver.fold(fair())
    for number in range(slots + many):
        driver.fold(submitted(f"a{number}", user="alice"))
    for number in range(slots):
        driver.carry_out(f"a{number}")
    driver.fold(submitted("only", user="bob"))
    driver.tick(1_000 * ran_s)
    assert standings(driver.view)["only"].position == 1
    driver.fold(driver.stopped(f"a{lot % slots}", 0))
    placed = [event for event in driver.decided if isinstance(event, c.PlacementPlanned)]
    assert placed[-1].job == "only"
    assert (
        "fair: the user with the least decayed use first (core time used: bob 0.0 s, alice " in placed[-1].because.rule
    )


@given(st.integers(1, 10_000), st.integers(1, 200), st.integers(0, 3))
@settings(max_examples=scaled(60), deadline=None)
def test_use_counts_half_after_each_half_life(cpu_m: int, ran_s: int, gpus: int) -> None:
    """What ran for a while before; a GPU counts like so many cores."""
    pool = FoldedPool()
    pool.feed(fair(), joined("w1", 10_000, gpus=3))
    pool.feed(submitted("a", requests=Resources(cpu_m=cpu_m, gpus=gpus), user="alice"), placement("a", "w1"))
    for _ in range(ran_s):
        pool.fold(c.Tick(counted_ms=pool.view.counted_ms + 1_000))
    cores, half_life_s = cpu_m / 1000 + GPU_CORES * gpus, HALF_LIFE_MS / 1000
    used = pool.view.jobs.use.used_by(ALICE)
    assert math.isclose(used, cores * half_life_s / math.log(2) * (1 - 0.5 ** (ran_s / half_life_s)))
    assert 0.79 * cores * ran_s < used <= cores * ran_s
    pool.carry_out("a")
    pool.end("a")
    half = pool.view.jobs.use.used_by(ALICE)
    ticks(pool, HALF_LIFE_MS)
    assert math.isclose(pool.view.jobs.use.used_by(ALICE), half / 2)
    assert pool.view.jobs.use.used_by(BOB) == 0.0


ACTS = st.lists(
    st.tuples(st.sampled_from(["alice", "bob"]), st.integers(1, 5_000), st.integers(1, 900_000)),
    min_size=1,
    max_size=12,
)


@given(ACTS, st.data())
@settings(max_examples=scaled(60), deadline=None)
def test_a_restored_view_knows_the_same_use(acts: list[tuple[str, int, int]], data: st.DataObject) -> None:
    """As floating-point numbers, bit for bit: a decider that starts from a snapshot decides the same."""
    pool = FoldedPool(w1=10_000_000)
    pool.fold(fair())
    restored = pool.view
    for number, (user, cpu_m, wait_ms) in enumerate(acts):
        name = f"j{number}"
        pool.feed(submitted(name, cpu_m, user=user), placement(name, "w1"))
        if data.draw(st.booleans()):
            pool.fold(fair(1_000 + wait_ms))
        ticks(pool, wait_ms)
        restored = ClusterView.restore(pool.view.snapshot())
        for account in (ALICE, BOB):
            assert restored.jobs.use.used_by(account) == pool.view.jobs.use.used_by(account) >= 0.0
    assert restored.snapshot() == pool.view.snapshot()


def test_the_users_whose_use_is_remembered_are_limited() -> None:
    """Of those who hold nothing the one goes who has used least; nobody who runs a job does."""
    pool = FoldedPool(w1=10_000_000)
    pool.fold(fair())
    for number in range(USERS_KEPT + 20):
        pool.feed(submitted(f"j{number}", 1 + number, user=f"u{number}"), placement(f"j{number}", "w1"))
        pool.fold(c.Tick(counted_ms=pool.view.counted_ms + 1_000))
        if number:
            pool.carry_out(f"j{number}")
            pool.end(f"j{number}")
    known = pool.view.state.used
    assert len(known) == USERS_KEPT
    assert ["user u0" in known, "user u1" in known, f"user u{USERS_KEPT + 19}" in known] == [True, False, True]


def test_of_more_users_the_largest_are_named() -> None:
    """The job's own, then those who have used most."""
    pool = FoldedPool(w1=10_000)
    pool.fold(fair())
    for number in range(1, 9):
        pool.feed(submitted(f"j{number}", 100 * number, user=f"u{number}"), placement(f"j{number}", "w1"))
    ticks(pool, 10_000)
    said = rule_for(pool.view, pool.job("j1"))
    assert said == (
        "fair: the user with the least decayed use first (core time used: u1 1.0 s, u8 8.0 s, u7 7.0 s, u6 6.0 s, u5 5.0 s)"
    )


def ticks(pool: FoldedPool, wait_ms: int) -> None:
    """Let so much time be counted, with as few ticks as the view believes."""
    until_ms = pool.view.counted_ms + wait_ms
    while pool.view.counted_ms < until_ms:
        pool.fold(c.Tick(counted_ms=until_ms))
