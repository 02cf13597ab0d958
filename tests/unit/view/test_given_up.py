"""A checkpoint that a job has gone back from does not come back, whoever still sees it on the job's volume."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, checkpoint, placement

from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaStatus
from steepest.events import cluster as c
from steepest.events.common import CheckpointRef
from steepest.events.growth import FindingKind
from steepest.sagas.calls import LookupCall, StartCall
from steepest.sagas.step_calls import step_calls
from steepest.sagas.step_task import REFUSED_BEFORE, step_task
from steepest.view.cluster_view import ClusterView

GOOD, DIVERGED = checkpoint(50), checkpoint(150)


def opened(kind: FindingKind, since: int | None = None, incarnation: int = 1) -> c.FindingOpened:
    """Something is found of job ``a``."""
    return c.FindingOpened(job="a", incarnation=incarnation, kind=kind, since=since, why="a test says so")


def restart(pool: FoldedPool, kind: FindingKind, saved: CheckpointRef | None) -> None:
    """Stop job ``a`` because of that, and let it wait again."""
    pool.fold(c.ReactionPlanned(job="a", incarnation=1, kind=kind, restarts=True, reason="a test says so"))
    pool.fold(pool.stopped("a", exit_status=85, saved=saved))
    pool.carry_out("a")
    assert pool.fold(c.RetryPlanned(job="a", incarnation=1, charged=False, not_before_ms=0, reason="so"))


def gone_back(*, saved: bool = True) -> FoldedPool:
    """Job ``a`` has diverged, and waits to go on from before that; ``saved``: it had saved by then."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("a", "w1")
    if saved:
        pool.fold(c.CheckpointVerified(job="a", incarnation=1, checkpoint=GOOD, node="w1"))
    pool.fold(opened(FindingKind.DIVERGED, since=100))
    restart(pool, FindingKind.DIVERGED, DIVERGED)
    return pool


def again(pool: FoldedPool) -> None:
    """Start it on w2."""
    pool.fold(placement("a", "w2", incarnation=1))
    pool.carry_out("a")


VERIFIED: Callable[[FoldedPool], c.ClusterEvent] = lambda _: c.CheckpointVerified(  # noqa: E731
    job="a", incarnation=2, checkpoint=DIVERGED, node="w2"
)
STOPPED: Callable[[FoldedPool], c.ClusterEvent] = lambda pool: pool.stopped("a", None, saved=DIVERGED)  # noqa: E731


@pytest.mark.parametrize("says", [VERIFIED, STOPPED])
@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("kept", [True, False])
def test_what_is_said_of_a_checkpoint_that_was_given_up_does_not_count(
    says: Callable[[FoldedPool], c.ClusterEvent],
    *,
    saved: bool,
    kept: bool,
) -> None:
    """A node reports the newest one on the volume, which is that until the job saves again. A snapshot keeps that."""
    pool = gone_back(saved=saved)
    again(pool)
    if kept:
        pool.view = ClusterView.restore(pool.view.snapshot())
    pool.fold(says(pool))
    assert pool.job("a").checkpoint == (GOOD if saved else None)
    assert not pool.job("a").saved_since_start


def test_what_it_saves_afterwards_counts_also_where_its_step_is_lower() -> None:
    """It is of a later incarnation."""
    pool = gone_back()
    again(pool)
    for step in (60, 70):
        assert pool.fold(c.CheckpointVerified(job="a", incarnation=2, checkpoint=checkpoint(step, 2), node="w2"))
        assert pool.job("a").checkpoint == checkpoint(step, 2)


@pytest.mark.parametrize("saved", [True, False])
def test_a_start_does_not_take_what_was_given_up(*, saved: bool) -> None:
    """Nor does it where the log knows of none."""
    pool = gone_back(saved=saved)
    assert restored(pool, DIVERGED) == (GOOD if saved else None)


def test_a_start_takes_what_the_log_has_not_heard_of() -> None:
    """A job whose node was lost has saved since the log was told; what the log knows it may have deleted."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("a", "w1")
    pool.fold(c.CheckpointVerified(job="a", incarnation=1, checkpoint=GOOD, node="w1"))
    pool.feed(c.NodeLost(node="w1", silent_ms=10_000), c.NodeGone(node="w1"))
    assert pool.fold(c.RetryPlanned(job="a", incarnation=1, charged=False, not_before_ms=0, reason="so"))
    assert restored(pool, DIVERGED) == DIVERGED
    assert pool.job("a").checkpoint == DIVERGED
    assert not pool.job("a").saved_since_start


@pytest.mark.parametrize(("refusals", "step"), [(0, 150), (REFUSED_BEFORE - 1, 150), (REFUSED_BEFORE, 50)])
def test_an_older_one_is_restored_once_the_newest_was_refused_too_often(refusals: int, step: int) -> None:
    """The SDK keeps two in case the newest is damaged."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("a", "w1")
    pool.fold(pool.stopped("a", None, saved=DIVERGED))
    for refused in range(refusals + 1):
        incarnation = pool.job("a").incarnation
        retry = c.RetryPlanned(job="a", incarnation=incarnation, charged=False, not_before_ms=0, reason="so")
        assert pool.fold(retry)
        if refused < refusals:
            pool.fold(placement("a", "w1", incarnation=incarnation))
            while pool.plan_of("a").steps:
                pool.fail("a", c.StepFailure.CHECKPOINT_REFUSED)
            pool.carry_out("a")
    found = restored(pool, GOOD)
    assert found is not None
    assert found.step == step


def restored(pool: FoldedPool, newest: CheckpointRef) -> CheckpointRef | None:
    """What job ``a`` is started from on w2, where ``newest`` is the newest on its volume."""
    pool.fold(placement("a", "w2", incarnation=pool.job("a").incarnation))
    begun = pool.begin("a")
    task = step_task(begun, pool.job("a"), pool.plan_of("a"), pool.view.parameters.limits, first_start=True)
    calls = step_calls(task)
    assert isinstance(next(calls), LookupCall)
    gone = ReplicaStatus(
        replica=ReplicaId("a"),
        incarnation=1,
        node="w1",
        phase=ReplicaPhase.GONE,
        exit_status=None,
        step=160,
        restored_step=None,
        checkpoint=newest,
    )
    start = calls.send(gone)
    assert isinstance(start, StartCall)
    with pytest.raises(StopIteration) as done:
        calls.send(None)
    placed = done.value.value
    assert isinstance(placed, c.JobPlaced)
    assert placed.restore == start.restore
    assert pool.fold(placed)
    return placed.restore


@pytest.mark.parametrize(("saved_at", "from_step"), [(50, 50), (150, 150)])
def test_a_job_that_diverged_and_restarts_for_another_reason_keeps_what_it_has(saved_at: int, from_step: int) -> None:
    """Where nothing from before the divergence is known, it goes on from its newest one, and not from its beginning."""
    pool = FoldedPool(w1=1_000)
    pool.run("a", "w1")
    pool.fold(c.CheckpointVerified(job="a", incarnation=1, checkpoint=checkpoint(saved_at), node="w1"))
    pool.feed(opened(FindingKind.DIVERGED, since=100), opened(FindingKind.HUNG))
    restart(pool, FindingKind.HUNG, None)
    found = pool.job("a").checkpoint
    assert found is not None
    assert found.step == from_step
