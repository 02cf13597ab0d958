"""Who gets what of a node: unknown sizes, totals that proved wrong, and urgent jobs."""

from __future__ import annotations

from typing import Any

import pytest

from steepest.events.parameters import SteepestParameters
from steepest.policies.steepest.node_plan import JobOnNode, plan_node

CORES = 4.0
FLOOR = SteepestParameters().floor * CORES / 2
"""Of each of two jobs."""


def rates(*jobs: JobOnNode) -> dict[str, float]:
    """The cores of each job."""
    plan_node(CORES, jobs, SteepestParameters())
    return {job.name: job.rate for job in jobs}


def job(name: str, left: float | None, **fields: Any) -> JobOnNode:
    """A job that can use the whole node."""
    return JobOnNode(name=name, left=left, demand=CORES, **fields)


def test_a_job_of_unknown_size_gets_its_fair_part_and_nothing_before_others() -> None:
    """What is to spare goes to known ones first, then to all of unknown size in equal parts."""
    silent = [job(name, None, fair_rate=1.0) for name in ("one", "other")]
    known = JobOnNode(name="known", left=100.0, demand=1.5, due_s=1_000.0)
    assert rates(known, *silent) == pytest.approx({"known": 1.5, "one": 1.25, "other": 1.25})
    assert rates(job("known", 100.0, due_s=1_000.0), *silent) == pytest.approx({"known": 2.0, "one": 1.0, "other": 1.0})


def test_jobs_of_unknown_size_yield_alike_where_one_is_here_whose_copy_has_ended() -> None:
    """It is late, and gets an equal part first: the newest of the others does not pay for it alone."""
    silent = [job(name, None, fair_rate=4 / 3) for name in ("a", "b", "newest")]
    found = rates(job("late", 1.0, due_s=-1.0), *silent)
    assert found == pytest.approx(dict.fromkeys(("late", "a", "b", "newest"), 1.0))


def test_a_job_whose_total_proved_wrong_gives_back_what_it_got_by_it() -> None:
    """While it is far ahead of its fair copy it gets its floor."""
    known = job("known", 100.0, due_s=1_000.0, index=1.0)
    assert rates(known, job("wrong", None, fair_rate=2.0, ahead=5.0))["wrong"] == pytest.approx(1.5)
    assert rates(known, job("wrong", None, fair_rate=2.0, ahead=50.0))["wrong"] == pytest.approx(FLOOR)


def test_what_is_to_spare_goes_to_the_urgent_job() -> None:
    """Its index does not matter, but what the other job must run now stays with that job."""
    urgent = job("urgent", 100.0, due_s=1_000.0, index=0.1, priority=1)
    assert rates(job("other", 100.0, due_s=1_000.0, index=1.0), urgent)["urgent"] == pytest.approx(CORES - FLOOR)
    assert rates(job("other", 100.0, due_s=25.0, index=1.0), urgent)["other"] == pytest.approx(CORES - FLOOR)


def test_where_not_all_promises_can_be_kept_that_of_the_urgent_job_is() -> None:
    """Both need the whole node now."""
    urgent = job("urgent", 100.0, due_s=20.0, priority=1)
    assert rates(job("other", 100.0, due_s=10.0), urgent)["urgent"] == pytest.approx(CORES - FLOOR)


def test_a_promise_is_kept_beside_jobs_of_unknown_size_whose_copies_have_the_whole_node() -> None:
    """Its copy is elsewhere, or has ended: what would be late gets an equal part before it is, and else it waits."""
    silent = job("silent", None, fair_rate=CORES)
    assert rates(job("moved", 100.0, due_s=60.0), silent) == pytest.approx({"moved": CORES / 2, "silent": CORES / 2})
    assert rates(job("late", 100.0, due_s=-1.0), silent) == pytest.approx({"late": CORES / 2, "silent": CORES / 2})
    assert rates(job("late", 5.0, due_s=-1.0), silent) == pytest.approx({"late": CORES / 2, "silent": CORES / 2})
    assert rates(job("in time", 10.0, due_s=1_000.0), silent)["silent"] == pytest.approx(CORES)


def test_a_pool_without_a_floor_plans_beside_a_job_that_has_the_whole_node() -> None:
    """No CPU remains for promises then, and they are late, which is no error."""
    jobs = [job("late", 100.0, due_s=5.0), job("silent", None, fair_rate=CORES)]
    plan_node(CORES, jobs, SteepestParameters(floor=0.0))
    assert [one.rate for one in jobs] == pytest.approx([CORES / 2, CORES / 2])
