"""SIGKILL of the whole system at any moment: running jobs continue, the next system takes them over, and nothing is lost."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.system.running_system import RunningSystem

from steepest.events import cluster as c

SCRIPT = Path(__file__).with_name("exclusive_training.py")
JOBS = ("one", "two", "three", "four")

# The large node is far larger, so that all jobs start there; with a high α all of them soon count as converged, and the
# small node is idle: then Algorithm 5 moves some.
OPTIONS = (
    "--interval",
    "300ms",
    "--heartbeat",
    "150ms",
    "--policy",
    "specon",
    "--alpha",
    "0.9",
    "--node",
    "large=1.6",
    "--node",
    "small=0.2",
)

Moment = Callable[[c.ClusterEvent], bool]


def _begins(step: c.Step) -> Moment:
    return lambda event: isinstance(event, c.StepBegun) and event.step is step


def _is(kind: type) -> Moment:
    return lambda event: isinstance(event, kind)


MOMENTS: dict[str, Moment] = {
    "a placement is decided": _is(c.PlacementPlanned),
    "a start begins": _begins(c.Step.START),
    "growth is measured": _is(c.GrowthMeasured),
    "a move is decided": _is(c.MigrationPlanned),
    "a checkpoint is asked for": _begins(c.Step.CHECKPOINT),
    "a job is being stopped": _begins(c.Step.STOP),
    "a job has stopped": _is(c.JobStopped),
    "a job must show that it trains": _begins(c.Step.VERIFY),
}


@pytest.fixture
def system(tmp_path: Path) -> Iterator[RunningSystem]:
    """A system with an idle node."""
    running = RunningSystem(tmp_path / "state", *OPTIONS)
    running.start()
    yield running
    running.end()


@pytest.mark.slow
@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_killed_system_loses_nothing(system: RunningSystem, tmp_path: Path, turn: int) -> None:
    """Killed at every other moment of a job's life, it loses nothing.

    Every job finishes, no job runs twice at a time, and finished jobs stay finished. The moments come in this order in
    the life of a job that is moved; the step that a kill interrupted is taken over by the next system.
    """
    rng = random.Random(turn)
    system.submit("early", sys.executable, "-c", "print('loss: 1.0')")
    system.await_end("early")
    early = _end_of(system.job("early"))
    system.kill()
    since = len(system.events())
    for name in JOBS:  # while nothing runs, so that no job has a start of seconds
        system.ask("submit", "--name", name, "--", sys.executable, str(SCRIPT), str(tmp_path))
    system.start()

    for moment in list(MOMENTS.values())[turn::2]:
        since = system.await_moment(moment, since)
        time.sleep(rng.choice((0, 0.01, 0.05)))  # a random delay, to hit any point of the step that has begun
        system.kill()
        system.start()
    (tmp_path / "enough").touch()

    assert {name: system.await_end(name).outcome for name in JOBS} == dict.fromkeys(JOBS, c.Outcome.FINISHED)
    assert [path.name for path in tmp_path.glob("*.twice")] == []
    assert system.breaches() == []
    assert _end_of(system.job("early")) == early


def _end_of(job: dict[str, Any]) -> dict[str, Any]:
    """How a job ended. Its reports are on another topic, and may be read after its end."""
    return {fact: job[fact] for fact in ("outcome", "exit_status", "node", "incarnation", "ended_ms", "retries_used")}
