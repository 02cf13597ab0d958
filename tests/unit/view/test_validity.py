"""Whether a plan is valid where it stands in the log, and the reason that a void one keeps."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.harness.scenarios.folded_pool import (
    FoldedPool,
    cancelled,
    checkpoint,
    joined,
    migration,
    placement,
    stay,
    submitted,
)

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.view.state import PlanStatus

CC = c.Category.CONVERGED
STEEPEST = c.MoveKind.STEEPEST
Scene = Callable[[FoldedPool], object]


def why_void(pool: FoldedPool, plan: c.PlacementPlanned | c.MigrationPlanned) -> str:
    """Fold a plan that must not count, hold the pool to be as before, and give the reason kept."""
    before = pool.allocated(), pool.counts()
    assert pool.fold(plan) is False
    assert (pool.allocated(), pool.counts()) == before
    kept = pool.view.plan(plan.plan)
    assert kept is not None
    assert kept.status is PlanStatus.VOID
    assert plan.plan not in pool.view.in_flight
    assert kept.code == pool.view.refused
    assert pool.view.refused is not None
    assert matches(pool.view.refused.sentence, kept.reason)
    return kept.reason


def matches(template: str, sentence: str) -> bool:
    """Whether a sentence is the template with its facts."""
    parts = [re.escape(part) for part in re.split(r"\{[^}]*\}", template)]
    return re.fullmatch(".*".join(parts), sentence) is not None


def nothing(_: FoldedPool) -> None:
    """No more than the job that waits or runs."""


PLACEMENTS: dict[str, tuple[Scene, c.PlacementPlanned, str]] = {
    "unknown job": (nothing, placement("unknown", "w1"), "the job does not wait for a place"),
    "runs already": (
        lambda pool: pool.run("r", "w1"),
        placement("r", "w1", plan="p"),
        "the job does not wait for a place",
    ),
    "old incarnation": (nothing, placement("job", "w1", incarnation=1), "it names incarnation 1, and the job's is 0"),
    "cancelled": (lambda pool: pool.fold(cancelled("job")), placement("job", "w1"), "the job is cancelled"),
    "other number of replicas": (nothing, placement("job", "w1", "w2"), "it places 2 replicas of 1"),
    "no replica at all": (
        lambda pool: pool.fold(submitted("none", replicas=0)),
        placement("none"),
        "it places 0 replicas of 0",
    ),
    "unknown node": (nothing, placement("job", "w9"), "there is no node w9"),
    "node that only reports": (
        lambda pool: pool.fold(joined("w1", takes_jobs=False)),
        placement("job", "w1"),
        "node w1 only reports, and takes no jobs",
    ),
    "lost node": (
        lambda pool: pool.fold(c.NodeLost(node="w1", silent_ms=1)),
        placement("job", "w1"),
        "node w1 is lost",
    ),
    "no CPU left": (
        lambda pool: pool.run("fat", "w1", cpu_m=950),
        placement("job", "w1"),
        "node w1 has not enough free: 50m CPU, and 100m CPU is asked for",
    ),
    "no memory left": (
        lambda pool: pool.feed(joined("m", 1_000, memory_mib=512), submitted("big", requests=Resources(100, 600, 0))),
        placement("big", "m"),
        "node m has not enough free: 1000m CPU, 512 MiB, and 100m CPU, 600 MiB is asked for",
    ),
    "no GPU": (
        lambda pool: pool.fold(submitted("gpu", requests=Resources(100, 0, 1))),
        placement("gpu", "w1"),
        "node w1 has not enough free: 1000m CPU, and 100m CPU, 1 GPU is asked for",
    ),
    "two replicas that fit only one by one": (
        lambda pool: pool.fold(submitted("two", 600, replicas=2)),
        placement("two", "w1", "w1"),
        "node w1 has not enough free: 1000m CPU, and 1200m CPU is asked for",
    ),
}


@pytest.mark.parametrize(("scene", "plan", "why"), PLACEMENTS.values(), ids=PLACEMENTS)
def test_void_placement(scene: Scene, plan: c.PlacementPlanned, why: str) -> None:
    """A placement that does not hold where it stands changes nothing but the memory of why."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.fold(submitted("job"))
    scene(pool)
    assert why_void(pool, plan) == why


MIGRATIONS: dict[str, tuple[Scene, c.MigrationPlanned, str]] = {
    "unknown job": (nothing, migration("unknown", "w1", "w2"), "the job does not run"),
    "waits": (lambda pool: pool.fold(submitted("waits")), migration("waits", "w1", "w2"), "the job does not run"),
    "ended": (lambda pool: pool.end("job"), migration("job", "w1", "w2"), "the job does not run"),
    "old incarnation": (
        nothing,
        migration("job", "w1", "w2", incarnation=0),
        "it names incarnation 0, and the job's is 1",
    ),
    "cancelled": (lambda pool: pool.fold(cancelled("job")), migration("job", "w1", "w2"), "the job is cancelled"),
    "another plan is in flight": (
        lambda pool: pool.fold(migration("job", "w1", "w3", plan="first")),
        migration("job", "w1", "w2"),
        "plan first is in flight",
    ),
    "cannot be saved": (
        lambda pool: pool.run("none", "w1", mode=None),
        migration("none", "w1", "w2"),
        "it cannot be checkpointed",
    ),
    "has not proven that it saves": (
        lambda pool: pool.run("stop", "w1", mode=CheckpointMode.ON_STOP),
        migration("stop", "w1", "w2"),
        "it saves when it is stopped, and has not proven yet that it can",
    ),
    "from where it is not": (
        nothing,
        migration("job", "w2", "w3"),
        "the job is on w1, and the plan moves it from w2 to w3",
    ),
    "to where it is": (nothing, migration("job", "w1", "w1"), "the job is on w1, and the plan moves it from w1 to w1"),
    "from a lost node": (
        lambda pool: pool.fold(c.NodeLost(node="w1", silent_ms=1)),
        migration("job", "w1", "w2"),
        "node w1 is lost, so the job cannot be saved and stopped there",
    ),
    "to an unknown node": (nothing, migration("job", "w1", "w9"), "there is no node w9"),
    "to a lost node": (
        lambda pool: pool.fold(c.NodeLost(node="w2", silent_ms=1)),
        migration("job", "w1", "w2"),
        "node w2 is lost",
    ),
    "to a full node": (
        lambda pool: pool.run("fat", "w2", cpu_m=950),
        migration("job", "w1", "w2"),
        "node w2 has not enough free: 50m CPU, and 100m CPU is asked for",
    ),
    "decided by Algorithm 4 before": (
        lambda pool: pool.fold(stay("job", "w1")),
        migration("job", "w1", "w2"),
        "Algorithm 4 has decided about it already",
    ),
    "moved by Algorithm 5 before": (
        lambda pool: (
            pool.fold(migration("job", "w1", "w2", plan="first", kind=c.MoveKind.REBALANCE)),
            pool.carry_out("job"),
        ),
        migration("job", "w2", "w1", incarnation=2, kind=c.MoveKind.REBALANCE),
        "Algorithm 5 has moved it already",
    ),
    "moved by the policy steepest a moment ago": (
        lambda pool: (
            pool.fold(migration("job", "w1", "w2", plan="first", kind=STEEPEST)),
            pool.carry_out("job"),
            pool.tick(59_999),
        ),
        migration("job", "w2", "w1", incarnation=2, kind=STEEPEST),
        "it was moved recently, and stays for a while",
    ),
}


@pytest.mark.parametrize(("scene", "plan", "why"), MIGRATIONS.values(), ids=MIGRATIONS)
def test_void_migration(scene: Scene, plan: c.MigrationPlanned, why: str) -> None:
    """A migration that does not hold where it stands changes nothing but the memory of why."""
    pool = FoldedPool(w1=1_000, w2=1_000, w3=1_000)
    pool.run("job", "w1", CC)
    scene(pool)
    assert why_void(pool, plan) == why


def test_the_policy_steepest_moves_a_job_again_after_a_while() -> None:
    """After a minute of counted time; SpeCon's rules hold back its own moves alone, and are held back by none."""
    pool = FoldedPool(w1=1_000, w2=1_000, w3=1_000)
    pool.run("job", "w1", CC)
    pool.fold(migration("job", "w1", "w2", kind=STEEPEST))
    pool.carry_out("job")
    assert pool.fold(migration("job", "w2", "w3", incarnation=2, kind=c.MoveKind.REALLOCATION))
    pool.carry_out("job")
    pool.tick(60_000)
    assert pool.fold(migration("job", "w3", "w1", incarnation=3, kind=STEEPEST))


def test_a_job_between_two_incarnations_is_not_moved() -> None:
    """While its plan starts it elsewhere no process of it runs, and its plan excludes any other."""
    pool = FoldedPool(w1=1_000, w2=1_000, w3=1_000)
    pool.run("job", "w1", CC)
    pool.fold(migration("job", "w1", "w2", plan="first"))
    pool.carry_out("job", before=c.Step.START)
    assert why_void(pool, migration("job", "w1", "w3", plan="second")) == "plan first is in flight"


def test_a_valid_placement_holds_its_place_at_once() -> None:
    """From its position in the log on the place is taken and the job counts there, though nothing was started."""
    pool = FoldedPool(w1=1_000)
    pool.fold(submitted("job", 300))
    assert pool.fold(placement("job", "w1"))
    assert pool.allocated() == {"w1": 300}
    assert pool.counts() == {"w1": [1, 0, 0]}


def test_a_valid_migration_holds_both_places_and_counts_at_its_target() -> None:
    """The old place stays reserved for the way back; the score follows the plan immediately."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("job", "w1", CC, cpu_m=300)
    assert pool.fold(migration("job", "w1", "w2"))
    assert pool.allocated() == {"w1": 300, "w2": 300}
    assert pool.counts() == {"w2": [0, 0, 1]}


def test_of_two_plans_for_one_place_the_first_in_the_log_wins() -> None:
    """Optimistic concurrency over the log: the order settles it, for every reader alike."""
    pool = FoldedPool(w1=1_000, w2=100, w3=1_000)
    pool.run("one", "w1", CC)
    pool.run("two", "w3", CC)
    assert pool.feed(migration("one", "w1", "w2"), migration("two", "w3", "w2")) == [True, False]


def test_a_plan_of_an_id_in_use_is_refused_and_the_first_one_is_untouched() -> None:
    """Two plans of one id would share steps and places; the second is no plan at all."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.feed(submitted("one"), submitted("two"), placement("one", "w1", plan="p"))
    assert pool.fold(placement("two", "w2", plan="p")) is False
    assert pool.plan_of("one").job == "one"
    assert pool.allocated() == {"w1": 100}
    pool.carry_out("one")
    assert pool.fold(migration("one", "w1", "w2", plan="p")) is False
    assert pool.allocated() == {"w1": 100}


def test_a_job_that_saves_when_stopped_may_be_moved_once_it_has_saved() -> None:
    """A verified checkpoint is the proof."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("job", "w1", mode=CheckpointMode.ON_STOP)
    assert pool.fold(c.CheckpointVerified(job="job", incarnation=1, node="w1", checkpoint=checkpoint()))
    assert pool.fold(migration("job", "w1", "w2"))


def test_what_the_process_declares_counts_where_its_user_says_nothing() -> None:
    """And what the user says counts first."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("silent", "w1", mode=None)
    pool.run("said", "w1", mode=CheckpointMode.NONE)
    pool.feed(
        c.CheckpointModeDeclared(job="silent", incarnation=1, node="w1", mode=CheckpointMode.ON_REQUEST),
        c.CheckpointModeDeclared(job="said", incarnation=1, node="w1", mode=CheckpointMode.ON_REQUEST),
    )
    assert pool.feed(migration("silent", "w1", "w2"), migration("said", "w1", "w2")) == [True, False]
