"""Runs demo jobs as processes, supervised or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped] # scikit-learn brings it

PATIENCE_S = 60.0


@dataclass
class Incarnation:
    """One supervised process of a job."""

    process: subprocess.Popen[bytes]
    control: Path

    def checkpoint(self) -> str:
        """Waits for the answer to the request that was there before it started; gives the checkpoint's name."""
        path = self.control / "checkpoint-ack.json"
        give_up_at = time.monotonic() + PATIENCE_S
        while not path.exists():
            assert self.process.poll() is None, "it left before it answered"
            assert time.monotonic() < give_up_at
            time.sleep(0.005)
        return str(json.loads(path.read_text())["name"])

    def printed(self) -> str:
        """All that it has printed, carriage returns and all, once it has left."""
        return self.process.communicate(timeout=PATIENCE_S)[0].decode()

    def losses(self) -> list[tuple[int, float]]:
        """Step and loss of each report."""
        reports: list[dict[str, Any]] = [
            json.loads(line) for line in self.control.joinpath("reports.jsonl").read_text().splitlines()
        ]
        return [(report["step"], report["metrics"]["loss"]) for report in reports]


@dataclass
class Jobs:
    """Starts demo jobs; all incarnations share one checkpoint folder."""

    root: Path
    started: list[Incarnation] = field(default_factory=list)

    def supervised(self, name: str, *arguments: str, restore: str = "", asked: bool = False) -> Incarnation:
        """Starts the next incarnation of a job, with a checkpoint request waiting for it if it is asked."""
        incarnation = len(self.started) + 1
        control = self.root / f"control-{incarnation}"
        control.mkdir()
        if asked:
            request = {"request": "a", "hold_s": PATIENCE_S}
            control.joinpath("checkpoint-request.json").write_text(json.dumps(request))
        variables = {
            "STEEPEST_JOB": name,
            "STEEPEST_REPLICA": "0",
            "STEEPEST_INCARNATION": str(incarnation),
            "STEEPEST_CONTROL": str(control),
            "STEEPEST_CHECKPOINTS": str(self.root / "checkpoints"),
            "STEEPEST_RESTORE": restore,
        }
        process = subprocess.Popen(command(name, arguments), env=os.environ | variables, stdout=subprocess.PIPE)
        self.started.append(Incarnation(process, control))
        return self.started[-1]


class Finished(NamedTuple):
    """What is left of a process; its output has its carriage returns still."""

    status: int
    stdout: str
    stderr: str


def command(name: str, arguments: tuple[str, ...]) -> list[str]:
    """What starts a demo job."""
    return [sys.executable, "-m", f"steepest_lab.jobs.{name}", *arguments]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A test process may have imported NumPy before the jobs could ask for one thread, as they do on their own."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """Demo jobs under a supervisor; every process that was started is gone after the test."""
    jobs = Jobs(tmp_path)
    yield jobs
    for incarnation in jobs.started:
        with incarnation.process as process:
            process.kill()


@pytest.fixture
def run_job() -> Callable[..., Finished]:
    """Runs a demo job outside Steepest, to its end."""

    def run(name: str, *arguments: str) -> Finished:
        done = subprocess.run(command(name, arguments), capture_output=True, check=False, timeout=PATIENCE_S)
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run
