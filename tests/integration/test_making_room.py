"""Real processes on an emulated node that holds no more: the last in line is suspended for a short job, and resumed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.testing.system.running_system import RunningSystem

PROGRAM = (sys.executable, str(Path(__file__).with_name("steady_training.py")))
FILLING = {"a": 180, "b": 180, "c": 180, "long": 260}
"""Steps; these four reserve all of the node's memory."""

SHORT = "short"


def submit(system: RunningSystem, name: str, steps: int) -> None:
    """Submit a training with so many steps."""
    system.submit(name, *PROGRAM, str(steps), options=("--memory", "256MiB"))


@pytest.mark.timeout(180)
def test_a_short_job_gets_the_place_of_the_last_in_line(tmp_path: Path) -> None:
    """It waits for no other job's end. The one that gave way has its place back, and goes on at the step that it saved."""
    system = RunningSystem(tmp_path / "state", "--policy", "steepest", "--node", "n=1:1GiB", "--min-run", "5s")
    try:
        system.start()
        for name, steps in FILLING.items():
            submit(system, name, steps)
        system.await_event(lambda found: isinstance(found.event, c.LimitsPlanned) or None)
        submit(system, SHORT, 10)

        suspended = system.await_event(_suspended)
        assert system.await_end(SHORT).outcome is c.Outcome.FINISHED
        job = suspended.job
        plan = next(one.event for one in system.events() if isinstance(one.event, c.TransitionPlanned))
        first = system.await_event(lambda found: _first_step(found, job, after=plan.incarnation))

        assert (plan.job, plan.room_for) == (job, SHORT)
        assert plan.because.standing is not None
        assert suspended.steps_lost == 0
        assert first > suspended.step > 0
        assert not [one for one in system.events() if isinstance(one.event, c.JobEnded) and one.event.job != SHORT]
        assert "last in line" in system.call("explain", job).stdout
        assert system.breaches() == []
    finally:
        system.end()


def _suspended(found: Received[c.ClusterEvent]) -> c.JobSuspended | None:
    return found.event if isinstance(found.event, c.JobSuspended) else None


def _first_step(found: Received[c.ClusterEvent], job: str, after: int) -> int | None:
    """A step that a later incarnation of a job reported."""
    progress = found.event.progress if isinstance(found.event, c.NodeUsage) else ()
    return next((one.step for one in progress if one.job == job and one.incarnation > after and one.step), None)
