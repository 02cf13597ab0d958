"""Limits of queues, and of nodes in replicas: the view judges them, whoever plans, by what jobs will hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, joined, migration, placement, submitted, transition

from steepest.events import cluster as c
from steepest.events.common import MOST_REPLICAS_OF_A_NODE, Resources
from steepest.events.parameters import PoolParameters, PreemptionLimits, QueueLimits, QueueParameters
from steepest.events.requests import Role
from steepest.view.state import PlanStatus
from steepest.view.validity import NoRoom, Void

ROLE = Role(name="worker", replicas=2, min=1, max=4, requests=Resources(cpu_m=100))


def configured(**limits: Any) -> c.PoolConfigured:
    """The queue ``paper`` has these limits."""
    parameters = PoolParameters(
        queueing=QueueParameters(policy="priority", limits=(QueueLimits(queue="paper", **limits),)),
        preemption=PreemptionLimits(min_run_ms=0),
    )
    return c.PoolConfigured(parameters=parameters)


def pool_of(**limits: Any) -> FoldedPool:
    """Two nodes, and a queue with limits."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.fold(configured(**limits))
    return pool


def run(pool: FoldedPool, name: str, *nodes: str, roles: tuple[Role, ...] = ()) -> None:
    """A job of the queue runs."""
    pool.feed(submitted(name, queue="paper", roles=roles), placement(name, *nodes))
    pool.carry_out(name)
    assert pool.job(name).alive


def held(pool: FoldedPool) -> tuple[int, int]:
    """Replicas and CPU that the queue holds."""
    use = pool.view.jobs.use.of("queue paper")
    return use.replicas, use.cpu_m


@pytest.mark.parametrize(
    ("limit", "most", "words"),
    [
        ("cpu_m", 150, "it asks for at least 100m CPU, and queue paper holds 100m CPU of the 150m CPU that it may hold"),
        ("replicas", 1, "it asks for at least 1 replica, and queue paper holds 1 replica of the 1 replica that it may"),
    ],
)  # fmt: skip
def test_of_two_plans_for_what_a_limit_leaves_one_the_first_is_valid(limit: str, most: int, words: str) -> None:
    """Whoever made them: the second one is void, and says what the limit is, what is held, and what is asked for."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.fold(configured(**{limit: most}))
    pool.feed(submitted("a", queue="paper"), submitted("b", queue="paper"), submitted("other"))
    assert pool.feed(placement("a", "w1"), placement("b", "w2"), placement("other", "w2")) == [True, False, True]
    void = pool.view.state.plans["place-b-0"]
    assert (void.status, void.code) == (PlanStatus.VOID, Void.OVER_LIMIT.value)
    assert void.reason.startswith(words)
    pool.carry_out("a")
    pool.end("a")
    assert pool.fold(placement("b", "w2", plan="again"))


def test_gpus_are_counted_in_shares_too() -> None:
    """Whole ones and shares together are within the limit."""
    pool = FoldedPool()
    pool.feed(configured(gpu_m=1_500), joined("w1", 1_000, gpus=4))
    share, whole = Resources(cpu_m=100, gpu_m=600), Resources(cpu_m=100, gpus=1)
    pool.feed(*(submitted(name, requests=amount, queue="paper") for name, amount in (("a", whole), ("b", share))))
    assert pool.feed(placement("a", "w1"), placement("b", "w1")) == [True, False]
    assert "at least 0.6 GPUs, and queue paper holds 1 GPU of the 1.5 GPUs" in pool.view.state.plans["place-b-0"].reason


def test_a_plan_that_waits_for_room_counts_with_its_full_size() -> None:
    """What it will hold is taken from the record of the plan on, and given back where the plan is given up."""
    pool = pool_of(cpu_m=1_000)
    pool.run("low", "w1", cpu_m=1_000)
    pool.feed(submitted("a", 1_000, queue="paper", priority=9), submitted("b", 100, queue="paper"))
    suspend = transition("low", c.Transition.SUSPEND, ["w1"], room_for="a")
    assert pool.feed(suspend, placement("a", "w1", after=(suspend.plan,))) == [True, True]
    assert held(pool) == (1, 1_000)
    assert not pool.fold(placement("b", "w2"))
    pool.carry_out("low")
    assert held(pool) == (1, 1_000)
    pool.carry_out("a")
    pool.end("a")
    assert held(pool) == (0, 0)
    assert pool.fold(placement("b", "w2", plan="again"))


def test_a_job_that_is_moved_counts_once() -> None:
    """While it holds two places, its queue holds one; a limit that was lowered does not keep it where it is."""
    pool = pool_of(replicas=1)
    run(pool, "a", "w1")
    pool.fold(configured(replicas=0))
    assert pool.fold(migration("a", "w1", "w2"))
    assert held(pool) == (1, 100)
    pool.carry_out("a")
    assert pool.job("a").nodes == ("w2",)
    assert held(pool) == (1, 100)


def test_a_gang_that_is_scaled_counts_by_the_larger_of_its_sizes() -> None:
    """It is scaled up within the limit only, holds the larger size until it is over, and may always become smaller."""
    pool = pool_of(replicas=3)
    run(pool, "g", "w1", "w1", roles=(ROLE,))
    up = transition("g", c.Transition.SCALE, ["w1", "w1"], "w1", "w1", "w2", "w2", plan="four", sizes=(4,))
    assert not pool.fold(up)
    assert "at least 2 replicas, and queue paper holds 2 replicas of the 3" in pool.view.state.plans["four"].reason
    three = transition("g", c.Transition.SCALE, ["w1", "w1"], "w1", "w1", "w2", plan="three", sizes=(3,))
    assert pool.fold(three)
    assert held(pool) == (3, 300)
    pool.carry_out("g")
    pool.fold(configured(replicas=1))
    down = transition("g", c.Transition.SCALE, ["w1", "w1", "w2"], "w1", "w1", incarnation=2, sizes=(2,))
    assert pool.fold(down)
    assert held(pool) == (3, 300)
    pool.carry_out("g")
    assert held(pool) == (2, 200)
    back = transition("g", c.Transition.SCALE, ["w1", "w1"], "w1", "w1", "w1", incarnation=3, plan="back", sizes=(3,))
    assert not pool.fold(back)


def test_no_job_is_suspended_for_one_that_its_queue_does_not_let_start() -> None:
    """Two deciders plan at the same time: the limit is used up where the suspension stands."""
    pool = pool_of(replicas=1)
    pool.run("low", "w1", cpu_m=1_000)
    pool.feed(submitted("a", queue="paper", priority=9), submitted("b", queue="paper"), placement("b", "w2"))
    suspend = transition("low", c.Transition.SUSPEND, ["w1"], room_for="a")
    assert not pool.fold(suspend)
    assert pool.view.refused is Void.ROOM_FOR_LIMITED


def test_a_node_takes_no_more_replicas_than_it_says_or_than_is_usual() -> None:
    """However little they ask for; and those of a gang that is placed are counted together."""
    pool = FoldedPool(w1=1_000)
    pool.fold(configured())
    few = msgspec.structs.replace(joined("w2"), capacity=Resources(cpu_m=1_000, replicas=2))
    pool.fold(few)
    pool.feed(submitted("g", 1, replicas=3), submitted("h", 1, replicas=2))
    assert not pool.fold(placement("g", "w2", "w2", "w2"))
    assert pool.view.refused is NoRoom.TOO_MANY_REPLICAS
    assert pool.fold(placement("h", "w2", "w2"))
    assert pool.node("w2").free.replicas == 0
    most = MOST_REPLICAS_OF_A_NODE
    pool.feed(*(submitted(name, 1, replicas=count) for name, count in (("i", most + 1), ("j", most))))
    assert not pool.fold(placement("i", *["w1"] * (most + 1)))
    assert pool.fold(placement("j", *["w1"] * most))
