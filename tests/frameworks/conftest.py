"""A minimal supervisor for real trainings: it starts their processes, sends requests, stops them, and reads their output."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE_S = 240.0
FRAMEWORKS = ("jax", "keras", "lightning", "sklearn", "torch", "transformers")
MISSING = [name for name in FRAMEWORKS if importlib.util.find_spec(name) is None]
needs_frameworks = pytest.mark.skipif(
    bool(MISSING), reason=f"{', '.join(MISSING)} not installed here: run `make test-frameworks`"
)

ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""Several trainings share the cores, and a sum's order must not depend on how many threads share it."""


@dataclass
class Training:
    """One incarnation of a training, in a folder of its own."""

    process: subprocess.Popen[bytes]
    folder: Path

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Waits until something that the process does can be seen."""
        give_up_at = time.monotonic() + PATIENCE_S
        while not holds():
            if self.process.poll() is not None and not holds():
                pytest.fail(f"it left with {self.process.returncode} before {what}: {self.said()}")
            if time.monotonic() > give_up_at:
                pytest.fail(f"no {what} within {PATIENCE_S} s: {self.said()}")
            time.sleep(0.005)

    def reports(self) -> list[dict[str, Any]]:
        """Its reports so far."""
        path = self.folder / "reports.jsonl"
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
        return [json.loads(line) for line in whole.splitlines()]

    def steps(self) -> list[int]:
        """The steps that it has reported, each once."""
        return list(dict.fromkeys(report["step"] for report in self.reports()))

    def losses(self) -> dict[int, float]:
        """The loss of each step."""
        return {report["step"]: report["metrics"]["loss"] for report in self.reports() if "loss" in report["metrics"]}

    def await_step(self, step: int) -> None:
        """Waits until a step is reported."""
        self.until(lambda: any(done >= step for done in self.steps()), f"step {step}")

    def hello(self) -> dict[str, Any]:
        """Waits for its hello."""
        return self._await_file("hello.json")

    def request(self) -> dict[str, Any]:
        """Asks for a checkpoint that is held until the stop, and waits for the answer."""
        temporary = self.folder / ".request"
        temporary.write_text(json.dumps({"request": "a", "hold_s": 120}))
        temporary.replace(self.folder / "checkpoint-request.json")
        return self._await_file("checkpoint-ack.json")

    def _await_file(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        self.until(path.exists, name)
        content: dict[str, Any] = json.loads(path.read_text())
        return content

    def terminate(self) -> int:
        """Sends SIGTERM, and returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Waits for the exit, and returns the status."""
        return self.process.wait(PATIENCE_S)

    def said(self) -> str:
        """All that it has printed, on both streams."""
        return self.folder.joinpath("output").read_text()

    def final_loss(self) -> str:
        """The final loss with all digits, which only a complete training prints."""
        line = self.said().splitlines()[-1]
        assert line.startswith("final loss "), self.said()
        return line.removeprefix("final loss ")


@dataclass
class Supervisor:
    """Starts the incarnations of one job, with one checkpoint folder for all."""

    root: Path
    started: list[Training] = field(default_factory=list)

    @property
    def checkpoints(self) -> Path:
        """The job's checkpoint folder."""
        return self.root / "checkpoints"

    def saved(self) -> list[str]:
        """The names in it, hidden ones too, oldest first."""
        names = [path.name for path in self.checkpoints.iterdir()] if self.checkpoints.exists() else []
        return sorted(names, key=lambda name: name.rpartition("-i")[2] + name)

    def start(self, script: Path, *arguments: str, env: Mapping[str, str] | None = None, restore: str = "") -> Training:
        """Starts the next incarnation."""
        incarnation = len(self.started) + 1
        folder = self.root / f"i{incarnation}"
        supervised = {
            "STEEPEST_JOB": "digits",
            "STEEPEST_REPLICA": "0",
            "STEEPEST_INCARNATION": str(incarnation),
            "STEEPEST_CONTROL": str(folder),
            "STEEPEST_CHECKPOINTS": str(self.checkpoints),
            "STEEPEST_RESTORE": restore,
        }
        self.started.append(_launch(folder, script, arguments, supervised | dict(env or {})))
        return self.started[-1]

    def start_alone(self, script: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Training:
        """Starts it as if there were no Steepest."""
        self.started.append(_launch(self.root / "alone", script, arguments, dict(env or {})))
        return self.started[-1]


def _launch(folder: Path, script: Path, arguments: Sequence[str], variables: Mapping[str, str]) -> Training:
    folder.mkdir(parents=True)
    outside = {key: value for key, value in os.environ.items() if not key.startswith("STEEPEST_")}
    with folder.joinpath("output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(script), *arguments],
            cwd=folder,
            env=outside | ONE_THREAD | dict(variables),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return Training(process, folder)


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor of one job; every process that it started is gone after the test."""
    yield from _supervisor(tmp_path)


@pytest.fixture
def another(tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor of a second job, to compare with."""
    yield from _supervisor(tmp_path / "another")


def _supervisor(root: Path) -> Iterator[Supervisor]:
    supervisor = Supervisor(root)
    yield supervisor
    for training in supervisor.started:
        training.process.kill()
        training.process.wait()
