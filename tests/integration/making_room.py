"""A node that holds no more: the last in line is suspended for a short job, and resumed; on any cluster."""

from __future__ import annotations

from tests.harness.system.running_system import RunningSystem

from steepest.events import cluster as c
from steepest.events.received import Received

FILLING = {"a": 180, "b": 180, "c": 180, "long": 260}
"""Steps of the jobs that reserve all that the node has."""

SHORT = "short"


def a_short_job_gets_the_place_of_the_last_in_line(
    system: RunningSystem, program: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """It waits for no other job's end. The one that gave way has its place back, and goes on at the step that it saved.

    Args:
        system: Under the policy ``steepest``, with one node.
        program: The command of a training that can be resumed, which takes its number of steps as the last argument.
        options: Of ``submit``; they reserve a quarter of the node.
    """
    for name, steps in FILLING.items():
        system.submit(name, *program, str(steps), options=options)
    system.await_event(lambda found: isinstance(found.event, c.LimitsPlanned) or None)
    system.submit(SHORT, *program, "10", options=options)

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


def _suspended(found: Received[c.ClusterEvent]) -> c.JobSuspended | None:
    return found.event if isinstance(found.event, c.JobSuspended) else None


def _first_step(found: Received[c.ClusterEvent], job: str, after: int) -> int | None:
    """A step that a later incarnation of a job reported."""
    progress = found.event.progress if isinstance(found.event, c.NodeUsage) else ()
    return next((one.step for one in progress if one.job == job and one.incarnation > after and one.step), None)
