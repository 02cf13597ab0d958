"""SIGKILL of the whole system at any moment: what runs goes on, the next system takes it over, and nothing is lost."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.testing.running_system import RunningSystem

SCRIPT = Path(__file__).with_name("exclusive_training.py")
JOBS = ("one", "two", "three", "four")
STEPS = "450"

# The large node is far larger, so that all jobs start there; with a high α all of them soon count as converged, and the
# small node is idle: then Algorithm 5 moves some.
OPTIONS = (
    "--interval",
    "300ms",
    "--heartbeat",
    "150ms",
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
@pytest.mark.parametrize("turn", [0, 1])
def test_a_killed_system_loses_nothing(system: RunningSystem, tmp_path: Path, turn: int) -> None:
    """Killed at every other moment of a job's life, it loses nothing.

    Every job finishes, none runs twice at once, and what had finished stays finished. The moments come in this order in
    the life of a job that is moved; the step that a kill interrupted is taken over by the next system.
    """
    lots = random.Random(turn)
    system.submit("early", sys.executable, "-c", "print('loss: 1.0')")
    system.await_end("early")
    early = system.job("early")
    since = len(system.events())
    for name in JOBS:
        system.submit(name, sys.executable, str(SCRIPT), str(tmp_path), STEPS)

    for moment in list(MOMENTS.values())[turn::2]:
        since = _kill_at(system, moment, since, lots)

    assert {name: system.await_end(name).outcome for name in JOBS} == dict.fromkeys(JOBS, c.Outcome.FINISHED)
    assert [path.name for path in tmp_path.glob("*.twice")] == []
    assert system.breaches() == []
    assert system.job("early") == early


def _kill_at(system: RunningSystem, moment: Moment, since: int, lots: random.Random) -> int:
    """Kill the system when the moment comes, or a little later, and start it again; where the log ended by then."""

    def comes(found: Received[c.ClusterEvent]) -> bool | None:
        return True if moment(found.event) else None

    system.await_event(comes, since)
    time.sleep(lots.choice((0, 0.01, 0.05)))  # drawn by lot, to be anywhere within what has begun
    system.kill()
    end = len(system.events())
    system.start()
    return end
