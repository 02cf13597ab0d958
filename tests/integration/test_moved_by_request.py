"""A user moves a job from one node to the other one with ``steepest move``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.harness.contracts import contract_job
from tests.harness.system.running_system import STEEPEST, RunningSystem

from steepest.events import cluster as c
from steepest.events.received import Received

JOB = (sys.executable, contract_job.__file__)
PLAIN = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.fixture
def system(tmp_path: Path) -> Iterator[RunningSystem]:
    """Two nodes, and a policy that moves nothing of its own accord."""
    nodes = ("--node", "here=0.8", "--node", "there=0.4")
    running = RunningSystem(tmp_path / "state", "--policy", "spread", "--interval", "300ms", *nodes)
    running.start()
    yield running
    running.end()


def test_a_job_is_moved_and_goes_on_from_the_step_that_it_saved(system: RunningSystem) -> None:
    """The request is its plan, which no decider made: the job saves, moves, resumes, and a replay decides all else alike."""
    system.submit("saves", *JOB)
    before = system.await_event(_placed("saves", 1))
    system.await_event(_has_stepped)
    to = "there" if before.node == "here" else "here"
    moved = system.call("move", "saves")
    after = system.await_event(_placed("saves", 2))
    finished = system.await_event(lambda found: found.event if isinstance(found.event, c.MigrationFinished) else None)

    assert (moved.returncode, moved.stdout) == (0, f"saves moves from {before.node} to {to}\n")
    assert after.node == to
    assert finished.steps_lost == 0
    assert after.restore is not None
    assert after.restore.step > 0
    assert "a user asked for it" in system.call("explain", "saves").stdout
    assert system.breaches() == []
    system.call("down")
    kept = str(system.state / "kept")
    assert system.call("record", "--out", kept).returncode == 0
    replayed = subprocess.run([*STEEPEST, "replay", kept], capture_output=True, text=True, check=False)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_what_cannot_move_is_refused_with_the_reason(system: RunningSystem) -> None:
    """A job that cannot save, its own node, a node that is not there, and one without room: nothing is written."""
    system.submit("plain", *PLAIN)
    system.await_event(_placed("plain", 1))
    system.submit("saves", *JOB, options=("--cpu", "0.6"))
    system.await_event(_placed("saves", 1))
    system.await_event(_has_stepped)
    end = system.events()[-1].offset
    refused = {
        ("plain",): "it cannot be checkpointed",
        ("saves", "--to", "here"): "the job is on here",
        ("saves", "--to", "nowhere"): "there is no node nowhere",
        ("saves", "--to", "there"): "node there has not enough free",
    }
    for arguments, reason in refused.items():
        done = system.call("move", *arguments)
        assert done.returncode == 2, done.stdout
        assert reason in done.stderr, done.stderr
    after = [found.event for found in system.events() if found.offset > end]
    assert not [event for event in after if isinstance(event, c.MigrationPlanned)]


def _placed(job: str, incarnation: int) -> Callable[[Received[c.ClusterEvent]], c.JobPlaced | None]:
    def look(found: Received[c.ClusterEvent]) -> c.JobPlaced | None:
        event = found.event
        if isinstance(event, c.JobPlaced) and (event.job, event.incarnation) == (job, incarnation):
            return event
        return None

    return look


def _has_stepped(found: Received[c.ClusterEvent]) -> bool | None:
    event = found.event
    return (isinstance(event, c.NodeUsage) and any(one.job == "saves" and one.step for one in event.progress)) or None
