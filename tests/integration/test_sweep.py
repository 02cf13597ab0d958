"""A sweep of real trainings on the local cluster, whose system is killed at each kind of moment of its life."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.harness.system.running_system import RunningSystem

from steepest.events import cluster as c

SCRIPT = Path(__file__).with_name("swept_training.py")
STEPS, TRIALS = 270, 6
BEST = "0.2"

MOMENTS: tuple[Callable[[c.ClusterEvent], bool], ...] = (
    lambda event: isinstance(event, c.RungReached),
    lambda event: isinstance(event, c.TrialJudged) and not event.goes_on,
    lambda event: isinstance(event, c.JobSuspended),
    lambda event: isinstance(event, c.TrialJudged) and event.goes_on,
    lambda event: isinstance(event, c.JobPlaced) and event.restore is not None,
)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[RunningSystem]:
    """Room for two trials."""
    running = RunningSystem(tmp_path / "state", "--policy", "spread", "--node", "n1=0.2", "--interval", "1s")
    running.start()
    yield running
    running.end()


def test_a_sweep_finishes_its_best_trial_also_if_the_system_is_killed(system: RunningSystem) -> None:
    """No trial loses a step or runs twice. One that is not stopped in time, because the system is away, is not the best."""
    rates = [BEST, "0.01", "0.08", "0.04", "0.02", "0.005"]
    command = (sys.executable, str(SCRIPT), "{rate}", str(STEPS))
    params = ("--param", f"rate={','.join(rates)}", "--rungs", "30", "--cpu", "0.1")
    system.ask("submit", "--name", "t", *params, "--", *command)
    since = 0
    for moment in MOMENTS:
        since = system.await_moment(moment, since)
        system.kill()
        system.start()
    names = [f"t-{number}" for number in range(TRIALS)]
    ended = {name: system.await_end(name).outcome for name in names}
    events = [received.event for received in system.events()]

    assert ended["t-0"] is c.Outcome.FINISHED
    assert list(ended.values()).count(c.Outcome.CANCELLED) >= TRIALS // 2
    assert system.ask("trials", "t")[0]["params"] == {"rate": BEST}
    assert sum(event.steps_lost for event in events if isinstance(event, c.JobSuspended)) == 0
    again = [event for event in events if isinstance(event, c.JobPlaced) and event.incarnation > 1]
    assert again
    assert all(event.restore is not None for event in again)
    assert system.breaches() == []
