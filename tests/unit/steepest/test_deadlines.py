"""A deadline is met from what others have to spare."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import pytest
from tests.harness.system.rig import Rig
from tests.harness.virtual_time import run_virtually
from tests.harness.waiting import until
from tests.unit.steepest.test_in_a_system import SERVICES, of_one

from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters
from steepest.policies.named import under
from steepest.policies.steepest.node_plan import JobOnNode
from steepest.view.state import Phase

DEADLINE_S = 75


async def ends_s(folder: Path, due: str | None) -> dict[str, float]:
    """When each of two equal jobs on one node ends, in seconds; ``due``: the one that has a deadline."""
    async with contextlib.aclosing(Rig(folder, {"n1": 1000})) as rig:
        process = rig.start(*SERVICES)
        await rig.configure(under("steepest", PoolParameters()))
        for name in ("a", "b"):
            spec = of_one(100, deadline_ms=1000 * DEADLINE_S if name == due else None)
            await rig.append(c.JobSubmitted(job=name, request=f"submit-{name}", spec=spec))
        await until(lambda: len(process.view.jobs) == 2, within_s=60)
        await until(lambda: all(job.phase is Phase.ENDED for job in process.view.jobs), "the ends", within_s=2_000)
        return {job.name: ((job.ended_ms or 0) - job.submitted_ms) / 1000 for job in process.view.jobs}


def test_a_deadline_that_fair_sharing_would_miss_is_met(tmp_path: Path) -> None:
    """Each needs 50 s of the node, and without deadlines one of them ends last."""
    without = run_virtually(ends_s(tmp_path / "without", None))
    first, last = sorted(without, key=without.__getitem__)
    ends = run_virtually(ends_s(tmp_path / "with", last))

    assert without[last] > DEADLINE_S
    assert ends[last] <= DEADLINE_S
    assert ends[first] <= 110


@pytest.mark.parametrize(
    ("deadline_s", "fair_end_s", "needs"),
    [
        (None, 100.0, 0.0),
        (120.0, 100.0, 0.0),  # met anyway
        (60.0, 100.0, 1.0),
        (60.0, None, 1.0),
        (20.0, 100.0, 0.0),  # cannot be met
        (-5.0, 100.0, 0.0),
        (10.0, 100.0, 0.0),  # now
        (35.0, 100.0, 2.0),
    ],
)
def test_what_a_job_needs_for_its_deadline(deadline_s: float | None, fair_end_s: float | None, needs: float) -> None:
    """50 core-seconds are left at 10 s, for a job that can use two cores."""
    facts = JobOnNode(name="j", demand=2.0, size=60.0, left=50.0, deadline_s=deadline_s, fair_end_s=fair_end_s)
    assert facts.needs(10.0) == pytest.approx(needs)
    assert math.isfinite(facts.needs(10.0))
