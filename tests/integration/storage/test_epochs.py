"""Epochs are found in what real jobs read, also if they say something else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.system.running_system import RunningSystem

from steepest.events import cluster as c
from steepest_lab.jobs.streamed_data import RECORD_BYTES, write_images
from steepest_lab.storage.link import running_link
from steepest_lab.storage.server import StorageServer

IMAGES = 4800
EPOCHS = 8
PATIENCE_S = 240.0
LIAR = """
import steepest_sdk
record = steepest_sdk.Run.record
steepest_sdk.Run.record = lambda run, step=None, **_: record(run, 10 ** 6, epoch=99, loss=1.0)
from steepest_lab.jobs import streamed
streamed.main()
"""
OPTIONS = ("images.bin", "--epochs", str(EPOCHS), "--batch", "64", "--evaluations", "60")
COMMANDS = {
    "honest": (sys.executable, "-m", "steepest_lab.jobs.streamed", *OPTIONS),
    "silent": ("env", "-u", "STEEPEST_CONTROL", sys.executable, "-m", "steepest_lab.jobs.streamed", *OPTIONS),
    "liar": (sys.executable, "-c", LIAR, *OPTIONS),
}


@pytest.fixture
def system(tmp_path: Path, storage: StorageServer) -> Iterator[RunningSystem]:
    """A node for each job, with data over a link that makes an epoch last two seconds."""
    write_images(storage.data / "images.bin", IMAGES)
    with running_link(storage.address, 3 * IMAGES * RECORD_BYTES // 2) as url:
        nodes = [word for number in (1, 2, 3) for word in ("--node", f"n{number}=0.4")]
        running = RunningSystem(tmp_path / "state", "--heartbeat", "100ms", "--storage", url, *nodes)
        running.start()
        yield running
        running.end()


def epochs(system: RunningSystem, job: str) -> list[c.EpochMeasured]:
    """What the profiler found of a job."""
    events = [found.event for found in system.events()]
    return [event for event in events if isinstance(event, c.EpochMeasured) and event.job == job]


def facts(system: RunningSystem, job: str) -> list[int]:
    """What the pool's log says that a job has read."""
    usages = [found.event for found in system.events() if isinstance(found.event, c.NodeUsage)]
    return [one.read_bytes or 0 for usage in usages for one in usage.progress if one.job == job]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_silent_job_and_one_that_lies_have_the_epochs_of_an_honest_one(system: RunningSystem) -> None:
    """All three read the same: the bytes of their epochs are the data set's, with headers."""
    for job, command in COMMANDS.items():
        system.submit(job, *command, options=("--cpu", "0.3"))
    deadline = time.monotonic() + PATIENCE_S
    while not all(epochs(system, job) for job in COMMANDS):
        assert time.monotonic() < deadline, {job: epochs(system, job) for job in COMMANDS}
        time.sleep(0.5)
    for job in COMMANDS:
        for event in epochs(system, job):
            assert event.epoch_bytes == pytest.approx(IMAGES * RECORD_BYTES, rel=0.02), job
            assert event.epoch <= EPOCHS
        # Of a silent job, how much it has read and its CPU time are all that is known of its progress.
        assert max(facts(system, job)) >= IMAGES * RECORD_BYTES
