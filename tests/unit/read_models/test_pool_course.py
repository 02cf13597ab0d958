"""A pool's whole log at one look: bounded however long it is, and in the categories that were in force."""

from __future__ import annotations

from tests.harness.scenarios.folded_pool import used
from tests.harness.scenarios.pool_with_history import PoolWithHistory

from steepest.events import cluster as c
from steepest.events.parameters import FlowConParameters, PoolParameters
from steepest.read_models.pool_course import POINTS_MOST


def test_a_long_log_is_as_many_points_as_a_short_one() -> None:
    """They reach from its first record to its last one, in the order of time and of the log."""
    pool = PoolWithHistory(n1=1_000)
    pool.run("a", "n1", cpu_m=500)
    for _ in range(5 * POINTS_MOST):
        pool.later(1)
        pool.fold(used("n1", 400, a=400))
    points = pool.history.points_now(pool.view)

    assert POINTS_MOST / 4 < len(points) <= POINTS_MOST + 1
    assert points[0].at_ms == pool.history.began_ms
    assert points[-1].at_ms == pool.now_ms
    assert points == sorted(points, key=lambda one: (one.at_ms, one.offset))
    assert points[-1].use == (400, 0, 0, 0, 0)


def test_a_silence_is_no_slope() -> None:
    """The record before it is a point, so that the pool is seen as it was until something happened."""
    pool = PoolWithHistory(n1=1_000)
    pool.run("a", "n1", cpu_m=500)
    silent_ms = pool.now_ms
    pool.later(60)
    pool.fold(used("n1", 900, a=900))
    assert [one.at_ms for one in pool.history.course.points[-2:]] == [silent_ms, pool.now_ms]
    assert {one.offset for one in pool.history.course.points[-2:]} == {pool.view.position - 1}


def test_each_policy_has_the_waits_of_the_jobs_that_finished_under_it() -> None:
    """The same policy with other parameters is no other policy."""
    pool = PoolWithHistory(n1=1_000)
    pool.run("a", "n1")
    pool.later(3)
    pool.fold(c.ReplicaStopped(job="a", incarnation=1, node="n1", exit_status=0))
    pool.fold(c.JobEnded(job="a", outcome=c.Outcome.FINISHED))
    flowcon = PoolParameters(flowcon=FlowConParameters(on=True))
    for parameters in (flowcon, flowcon):
        pool.fold(c.PoolConfigured(parameters=parameters))
    first, second = pool.history.course.periods

    assert (first.finished, first.took_ms) == (1, 3_000)
    assert (second.policy, second.finished) == ("specon+flowcon", 0)
