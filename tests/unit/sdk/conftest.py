"""A supervisor in small, for the tests of the SDK: it starts training processes and talks to them through files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("training_script.py")
PATIENCE_S = 60.0


@dataclass
class Training:
    """One incarnation of a training script, running in a folder of its own."""

    process: subprocess.Popen[bytes]
    folder: Path
    control: Path

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Waits until something that the process does can be seen."""
        give_up_at = time.monotonic() + PATIENCE_S
        while not holds():
            if self.process.poll() is not None and not holds():
                pytest.fail(f"the process left with {self.process.returncode} before {what}: {self.stderr()}")
            if time.monotonic() > give_up_at:
                pytest.fail(f"no {what} within {PATIENCE_S} s: {self.stderr()}")
            time.sleep(0.005)

    def at(self, moment: object) -> None:
        """Waits until the script has come to a moment."""
        self.until(self.folder.joinpath(f"at-{moment}").exists, f"moment {moment}")

    def go(self, moment: object) -> None:
        """Lets the script go on from a moment."""
        self.folder.joinpath(f"go-{moment}").touch()

    def request(self, name: str = "a", hold_s: object = 60) -> None:
        """Asks for a checkpoint."""
        self.put("checkpoint-request.json", {"request": name, "hold_s": hold_s})

    def release(self, name: str = "a") -> None:
        """Says that no stop will follow."""
        self.put("release.json", {"request": name})

    def put(self, name: str, content: object) -> None:
        """Writes a control file as the contract says: under a temporary name, then renamed."""
        temporary = self.control / f".{name}"
        temporary.write_text(content if isinstance(content, str) else json.dumps(content))
        temporary.replace(self.control / name)

    def ack(self, name: str = "a") -> dict[str, Any]:
        """Waits for the answer to a request."""
        path = self.control / "checkpoint-ack.json"
        self.until(lambda: path.exists() and json.loads(path.read_text())["request"] == name, f"answer to {name}")
        answer: dict[str, Any] = json.loads(path.read_text())
        return answer

    def hello(self) -> dict[str, Any]:
        """Waits for the hello."""
        path = self.control / "hello.json"
        self.until(path.exists, "hello")
        hello: dict[str, Any] = json.loads(path.read_text())
        return hello

    def reports(self) -> list[dict[str, Any]]:
        """The whole lines of ``reports.jsonl``."""
        path = self.control / "reports.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def terminate(self) -> None:
        """SIGTERM: save and leave."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """The exit status, once it has left."""
        return self.process.wait(PATIENCE_S)

    def stderr(self) -> str:
        """What it has printed for people."""
        return self.folder.joinpath("stderr").read_text()

    def result(self) -> str:
        """The final weight, to the last bit; only a complete training writes it."""
        return self.folder.joinpath("result").read_text()


@dataclass
class Supervisor:
    """Starts the incarnations of one job, with one checkpoint folder for all."""

    root: Path
    checkpoints: Path = field(init=False)
    started: list[Training] = field(default_factory=list)
    alone: list[Training] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.checkpoints = self.root / "checkpoints"

    def start(
        self, *arguments: str, restore: str = "", replica: int = 0, wrong: Mapping[str, str] | None = None
    ) -> Training:
        """Starts the next incarnation, with some variables put wrong on purpose."""
        incarnation = len(self.started) + 1
        folder = self.root / f"i{incarnation}-r{replica}"
        control = folder / "control"
        control.mkdir(parents=True)
        supervised = {
            "STEEPEST_JOB": "walk",
            "STEEPEST_REPLICA": str(replica),
            "STEEPEST_INCARNATION": str(incarnation),
            "STEEPEST_CONTROL": str(control),
            "STEEPEST_CHECKPOINTS": str(self.checkpoints),
            "STEEPEST_RESTORE": restore,
        }
        self.started.append(launch(folder, control, supervised | dict(wrong or {}), arguments))
        return self.started[-1]

    def start_alone(self, *arguments: str) -> Training:
        """Starts the script as if there were no Steepest."""
        folder = self.root / f"alone-{len(self.alone)}"
        folder.mkdir()
        self.alone.append(launch(folder, folder / "control", {}, arguments))
        return self.alone[-1]

    def saved(self) -> list[str]:
        """The names in the checkpoint folder, hidden ones too."""
        return sorted(path.name for path in self.checkpoints.iterdir()) if self.checkpoints.exists() else []

    def digest(self, name: str) -> str:
        """The digest in a checkpoint's manifest."""
        return str(json.loads((self.checkpoints / name / "manifest.json").read_text())["digest"])


def launch(folder: Path, control: Path, variables: dict[str, str], arguments: tuple[str, ...]) -> Training:
    """Starts the script in a folder, with no variables of Steepest but the given ones."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STEEPEST_")}
    with folder.joinpath("stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *arguments], cwd=folder, env=environment | variables, stderr=stderr
        )
    return Training(process, folder, control)


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor of one job; every process that it started is gone after the test."""
    supervisor = Supervisor(tmp_path)
    yield supervisor
    for training in supervisor.started + supervisor.alone:
        training.process.kill()
        training.process.wait()
