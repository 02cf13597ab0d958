"""Trainings that hang, diverge or idle on the local cluster: found, said, and dealt with as their users ask."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.harness.system.running_system import RunningSystem

from steepest.events import cluster as c
from steepest.events.growth import FindingKind
from steepest.events.received import Received

TRAINS = """
import sys, time
step = 0
while True:
    step += 1
    until = time.thread_time() + 0.02
    while time.thread_time() < until:
        pass
    loss = sys.argv[1] if step > 30 else f"{1 / step:.4f}"
    print(f"step {step}/100000 loss {loss}", flush=True)
"""


@pytest.fixture
def system(tmp_path: Path) -> Iterator[RunningSystem]:
    """One node of two cores under fair sharing, with no limits."""
    running = RunningSystem(tmp_path / "state", "--policy", "spread", "--node", "n1=0.8:1Gi", "--interval", "1s")
    running.start()
    yield running
    running.end()


def opened(kind: FindingKind, job: str) -> Callable[[Received[c.ClusterEvent]], c.FindingOpened | None]:
    """Finds the record that says so."""

    def look(found: Received[c.ClusterEvent]) -> c.FindingOpened | None:
        event = found.event
        return event if isinstance(event, c.FindingOpened) and (event.kind, event.job) == (kind, job) else None

    return look


@pytest.mark.timeout(300)
def test_a_loss_that_is_not_finite_is_said_and_ends_the_job_that_asks_for_it(system: RunningSystem) -> None:
    """The one that does not is marked, and trains on; both are found within some values."""
    system.submit("fails", "python3", "-c", TRAINS, "nan", options=("--on-diverged", "fail"))
    system.submit("goes-on", "python3", "-c", TRAINS, "nan")
    for job in ("fails", "goes-on"):
        system.await_event(opened(FindingKind.DIVERGED, job))
    ended = system.await_end("fails")

    assert (ended.outcome, ended.reason[:9]) == (c.Outcome.FAILED, "diverged:")
    assert "diverged: its loss is not finite" in system.call("jobs").stdout
    assert "goes-on diverges" in system.call("events").stdout
    assert "it diverges" in system.call("explain", "goes-on").stdout
    system.call("cancel", "goes-on")
    assert system.await_end("goes-on").outcome is c.Outcome.CANCELLED
    assert system.breaches() == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_that_stands_still_is_restarted(system: RunningSystem) -> None:
    """Its process is stopped by a signal; it is found after fifty of its typical reports, and runs again."""
    system.submit("stands", "python3", "-c", TRAINS, "0.01", options=("--on-hung", "restart"))

    def stepped(found: Received[c.ClusterEvent]) -> bool | None:
        progress = found.event.progress if isinstance(found.event, c.NodeUsage) else ()
        return any((one.step or 0) > 800 for one in progress) or None

    system.await_event(stepped)
    mine = [each for each in psutil.process_iter(["cmdline"]) if TRAINS in (each.info["cmdline"] or [])]
    for process in mine:
        os.kill(process.pid, signal.SIGSTOP)
    found = system.look_for(opened(FindingKind.HUNG, "stands"), since=0, patience_s=300)
    again = system.await_event(
        lambda found: found.event if isinstance(found.event, c.JobPlaced) and found.event.incarnation > 1 else None
    )

    assert found is not None
    assert found.figures["silent_ms"] > found.figures["allowed_ms"]
    assert again.job == "stands"
    system.call("cancel", "stands")
    assert system.await_end("stands").outcome is c.Outcome.CANCELLED
    assert system.breaches() == []
