"""Gangs of ``DistributedDataParallel`` that hold whole GPUs: one gives way to another, and goes on where it was."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.frameworks.conftest import ONE_THREAD, PATIENCE_S, needs_frameworks
from tests.harness.system.running_system import RunningSystem
from tests.integration.gang_system import append, losses, reports, wait_for

from steepest.events import cluster as c

pytestmark = [needs_frameworks, pytest.mark.timeout(900)]

SCRIPT = Path(__file__).with_name("ddp_digits.py")
ENDLESS = 20_000
MORE = 20
REPLICAS = 4
GPUS = {"n1": {0, 1}, "n2": {2, 3}}


@pytest.fixture
def system(tmp_path: Path) -> Iterator[RunningSystem]:
    """Two nodes with two declared GPUs each."""
    nodes = ("--node", "n1=4:gpus=2", "--node", "n2=4:gpus=2")
    running = RunningSystem(
        tmp_path / "state", "--heartbeat", "250ms", "--policy", "steepest", "--min-run", "5s", *nodes, env=ONE_THREAD
    )
    running.start()
    yield running
    running.end()


def test_a_gang_gives_its_gpus_to_a_shorter_one_and_goes_on_where_it_was(system: RunningSystem) -> None:
    """Each rank sees one GPU of its node and is the only local one; the losses are those of a gang that nobody stops."""
    submit(system, "long", ENDLESS, REPLICAS, pause=0.25)
    wait_for(lambda: reports(system, "long", 1), PATIENCE_S)
    submit(system, "short", 10, 2, pause=0.25)
    ended = system.look_for(lambda found: end_of(found.event, "short"), 0, PATIENCE_S)
    wait_for(lambda: len(reports(system, "long", 2)) >= MORE, PATIENCE_S)
    cancel(system, "long")
    found = losses(system, "long", (1, 2))
    submit(system, "again", ENDLESS, REPLICAS, pause=0.0)
    wait_for(lambda: len(reports(system, "again", 1)) > len(found), PATIENCE_S)
    cancel(system, "again")
    events = [found.event for found in system.events()]
    suspended = [event for event in events if isinstance(event, c.JobSuspended)]
    started = [event for event in events if isinstance(event, c.ReplicaStarted)]
    assigned = {(one.job, one.replica, one.incarnation): one.gpus for one in started}

    assert ended is c.Outcome.FINISHED, output(system, "short", 0)
    assert [(one.job, one.steps_lost) for one in suspended] == [("long", 0)]
    assert [*found] == [*range(1, len(found) + 1)]
    for one in started:
        assert len(one.gpus) == 1
        assert set(one.gpus) <= GPUS[one.node]
    for rank in range(REPLICAS):
        for incarnation in (1, 2):
            seen = re.findall(r"^sees (.*)$", output(system, "long", rank, incarnation), re.MULTILINE)
            assert seen == [f"{rank} 0 1 {assigned['long', rank, incarnation][0]}"]
    alone = losses(system, "again", (1,))
    assert [found[step] for step in found] == pytest.approx([alone[step] for step in found], rel=1e-3)
    assert system.breaches() == []


def cancel(system: RunningSystem, job: str) -> None:
    """End a job that would not end."""
    append(system, c.JobCancelRequested(job=job, request=f"cancel-{job}"))
    assert system.look_for(lambda found: end_of(found.event, job), 0, PATIENCE_S) is c.Outcome.CANCELLED


def submit(system: RunningSystem, job: str, steps: int, replicas: int, *, pause: float) -> None:
    """Submit a gang of a GPU each."""
    options = ("--replicas", str(replicas), "--gpus", "1", "--model", "ddp", "--steps", str(steps))
    system.submit(job, sys.executable, str(SCRIPT), "--steps", str(steps), "--pause", str(pause), options=options)


def end_of(event: c.ClusterEvent, job: str) -> c.Outcome | None:
    """How a job ended; None while it has not."""
    return event.outcome if isinstance(event, c.JobEnded) and event.job == job else None


def output(system: RunningSystem, job: str, rank: int, incarnation: int = 1) -> str:
    """What an incarnation of a rank has printed."""
    asked = ("--replica", str(rank), "--incarnation", str(incarnation))
    return system.call("logs", job, *asked).stdout
