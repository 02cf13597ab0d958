"""Orders that limits enforce, and the fluid that bounds them."""

from __future__ import annotations

import pytest

from steepest.events.parameters import SteepestParameters
from steepest.policies.steepest.node_plan import JobOnNode
from steepest_lab.baselines.with_caps import LasWithCaps, SrtfWithCaps
from steepest_lab.sim.fluid import FluidJob, fluid_srpt

CORES = 4.0
PARAMETERS = SteepestParameters(floor=0.0)


def test_the_shortest_job_has_all_that_it_can_use() -> None:
    """The next one has the rest; one of unknown size is last, though it has done least."""
    jobs = [
        JobOnNode(name="long", left=90.0, used=1.0, demand=4.0),
        JobOnNode(name="short", left=9.0, used=50.0, demand=3.0),
        JobOnNode(name="unknown", left=None, used=0.5, demand=4.0),
    ]
    SrtfWithCaps().divide(CORES, jobs, PARAMETERS)
    assert [job.rate for job in jobs] == pytest.approx([1.0, 3.0, 0.0])
    assert [job.limit_m for job in jobs] == [1000, None, 10]


def test_the_job_that_has_done_least_is_first_whatever_its_size() -> None:
    """A job that was not measured yet is before it."""
    jobs = [
        JobOnNode(name="worked", left=1.0, used=9.0, demand=4.0),
        JobOnNode(name="began", left=None, used=2.0, demand=3.0),
        JobOnNode(name="new", left=None, used=3.0, demand=1.0, young=True),
    ]
    LasWithCaps().divide(CORES, jobs, PARAMETERS)
    assert [job.rate for job in jobs] == pytest.approx([0.0, 3.0, 1.0])


def test_the_fluid_serves_the_shortest_first() -> None:
    """A job that comes later and is shorter goes before; none uses more than it can."""
    both = [FluidJob(0.0, 30.0, 1.0), FluidJob(5.0, 10.0, 1.0)]
    assert fluid_srpt(both, 1.0) == pytest.approx([40.0, 10.0])
    assert fluid_srpt(both, 2.0) == pytest.approx([30.0, 10.0])
