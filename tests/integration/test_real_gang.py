"""A gang of real processes on emulated nodes: placed whole, restarted whole, and with the losses of one process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.harness.system.running_system import RunningSystem

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c

JOB = "together"
PARALLEL = (sys.executable, "-m", "steepest_lab.jobs.parallel", "--steps", "40", "--seed", "4")
LOSS = "nats "
PATIENCE_S = 60.0


@pytest.fixture
def system(tmp_path: Path) -> Iterator[RunningSystem]:
    """Two nodes, neither of which has room for the whole gang."""
    nodes = ("--node", "n1=0.5", "--node", "n2=0.3")
    running = RunningSystem(tmp_path / "state", "--heartbeat", "250ms", *nodes)
    running.start()
    yield running
    running.end()


def losses(system: RunningSystem, incarnation: int) -> dict[int, float]:
    """The chief's loss of each step, as an incarnation reported it."""
    path = AdapterFolder(system.state / "cluster").incarnation(ReplicaId(JOB), incarnation).reports
    lines = path.read_text().splitlines() if path.exists() else []
    return {line["step"]: line["metrics"]["loss"] for line in map(json.loads, lines)}


def test_a_killed_process_costs_a_gang_no_step_that_was_saved(system: RunningSystem) -> None:
    """A process of three is killed: all three start again from the chief's checkpoint, and the losses are one process's."""
    system.submit(JOB, *PARALLEL, options=("--replicas", "3", "--cpu", "0.2", "--retries", "1"))
    deadline = time.monotonic() + PATIENCE_S
    while len(losses(system, 1)) < 10:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    started = AdapterFolder(system.state / "cluster").incarnation(ReplicaId(JOB, 1), 1).started()
    assert started is not None
    os.kill(started.pid, signal.SIGKILL)
    ended = system.await_end(JOB)

    assert ended.outcome is c.Outcome.FINISHED, system.call("explain", JOB).stdout
    placed = [found.event for found in system.events() if isinstance(found.event, c.JobPlaced)]
    assert [event.incarnation for event in placed] == [1, 2]
    assert placed[1].restore is not None
    assert placed[1].restore.step >= 9
    assert system.breaches() == []
    alone = subprocess.run(PARALLEL, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    output = AdapterFolder(system.state / "cluster").printed(ReplicaId(JOB))[-1].output.read_text().splitlines()[-1]
    np.testing.assert_allclose(float(output.split(LOSS)[1]), float(alone.split(LOSS)[1]), rtol=0, atol=1e-6)
