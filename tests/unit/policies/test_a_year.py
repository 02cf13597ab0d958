"""What a pool leaves behind that lives for long: as much after eighty days as after twenty."""

from __future__ import annotations

import pytest
from tests.harness.system.year import STEPS_A_DAY, PoolLife
from tests.harness.view_promises import check_view

from steepest.events.cluster import Outcome
from steepest.policies.monitor import facts
from steepest.policies.specon import categorizer
from steepest.policies.specon.categorizer import Categorizer
from steepest.view import jobs, lifecycle
from steepest.view.state import Phase

NODES, SPOTS_A_DAY, JOBS_A_DAY = 3, 2, 32


@pytest.fixture(params=["specon+flowcon", "steepest", "pickyman", "dragon-fixed"])
def life(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> PoolLife:
    """A small pool, in which bounds by number are reached within a few days."""
    monkeypatch.setattr(jobs, "ENDED_KEPT", 10 * JOBS_A_DAY)
    monkeypatch.setattr(lifecycle, "PLANS_KEPT", 5 * JOBS_A_DAY)
    monkeypatch.setattr(facts, "BEATS_KEPT", 2 * NODES * STEPS_A_DAY)
    monkeypatch.setattr(categorizer, "LOOK_EVERY", 4)
    return PoolLife(JOBS_A_DAY, nodes=NODES, spots_a_day=SPOTS_A_DAY, policy=request.param)


def test_what_is_remembered_is_bounded(life: PoolLife) -> None:
    """Jobs, nodes, orphans and every snapshot, over restarts."""
    life.days(20)
    after_twenty = life.sizes()
    for _ in range(3):
        life.restart()
        life.days(20)
    after_eighty = life.sizes()
    check_view(life.view)
    orphans = sum(len(one.state.jobs) for one in life.streams if isinstance(one, Categorizer))

    assert len(life.view.jobs) <= 12 * JOBS_A_DAY
    assert len(list(life.view.nodes)) <= NODES + 3 * SPOTS_A_DAY
    assert len(life.streams[0].state.nodes) <= NODES + 4 * SPOTS_A_DAY
    assert orphans <= 2 * JOBS_A_DAY
    assert after_eighty["view"] <= 1.1 * after_twenty["view"]
    assert sum(after_eighty.values()) <= 1.1 * sum(after_twenty.values())
    assert {name: size for name, size in after_eighty.items() if size > 1.25 * after_twenty[name] + 500} == {}
    outcomes = {job.outcome for job in life.view.jobs if job.phase is Phase.ENDED and not job.incarnation}
    assert Outcome.FAILED in outcomes, "some are rejected"


def test_every_job_comes_to_its_end(life: PoolLife) -> None:
    """No job is stranded while jobs and nodes come and go: only the newest jobs are not over."""
    life.days(20)
    oldest = min(job.submitted_ms for job in life.active())

    assert life.now_ms - oldest <= 2 * 86_400_000
    assert life.view.state.gaps == 0
