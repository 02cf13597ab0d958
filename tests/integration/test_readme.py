"""The README's commands do what it says they do."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.system.running_system import RunningSystem

from steepest.events import cluster as c
from steepest.training_logs import LogReader
from tools.docs.markdown import ROOT, blocks

README = (ROOT / "README.md").read_text()

NOT_RUN = {
    "git clone": "the repository is here",
    "make": "takes minutes; the targets are looked up instead",
    ".venv/bin/steepest up --kafka": "needs a broker; tests/integration/kafka does it",
    ".venv/bin/steepest submit -- python train.py": "a script of the reader's",
    "docker compose": "needs an engine and images; tests/integration/compose does it",
    ".venv/bin/steepest up --cluster docker": "needs an engine; tests/integration/docker does it",
    ".venv/bin/steepest submit --image": "needs an image of the reader's",
}
"""Commands that are not run here, by how they begin, and why."""

SHORTER = {"--seed 0-9": "--seed 0", "--steps 300": "--steps 30"}
"""What is run instead, so that it takes a second."""

FEW = 10
"""Epochs after which a job's time left is known."""

UNTIL_STOPPED = (".venv/bin/steepest up",)

SCRIPT = next(block.text for block in blocks(README) if block.language == "python")
"""The README's training."""

WITHOUT_TORCH = f"""\
import time
batches, epochs = [0], 200
for epoch in range(epochs):
    time.sleep(0.2)
    total = 0.97**epoch
{SCRIPT.rstrip().rpartition(chr(10))[2]}
"""
"""Prints the same line an epoch, where PyTorch is missing; `make test-frameworks` runs the script itself."""

TRACE = """\
job_id,num_gpu,submit_time,iterations,model_name,duration,interval
0,1,0,606,vgg19,164,30
1,8,30,133,vgg11,147,23
"""


def commands() -> list[str]:
    """Every command of the README, in its order; comments are left out."""
    lines = (line for block in blocks(README) if not block.language for line in block.text.splitlines())
    return [re.sub(r"\s+#.*", "", line) for line in lines if line.startswith((".venv/", "make ", "git ", "docker "))]


def is_run(command: str) -> bool:
    """Whether a command is run here."""
    return not any(command.startswith(start) for start in NOT_RUN)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A reader's working folder: an environment, the demo's recording, a trace."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / ".steepest").mkdir()
    (tmp_path / ".steepest" / "demo-1").symlink_to(ROOT / "tests" / "golden" / "moves")
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "train.py").write_text(SCRIPT if importlib.util.find_spec("torch") else WITHOUT_TORCH)
    return tmp_path


@pytest.fixture
def background(folder: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """A process that runs until it is stopped, at the latest at the test's end."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
    subprocess.run([".venv/bin/steepest", "down"], cwd=folder, capture_output=True, check=False)


def test_every_command_does_what_it_says(folder: Path, background: list[subprocess.Popen[str]]) -> None:
    """Run in their order, all of them exit with 0; the job that the README submits is there until it is cancelled."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STEEPEST_")}
    printed: dict[str, str] = {}
    for command in filter(is_run, commands()):
        for long, short in SHORTER.items():
            command = command.replace(long, short)  # noqa: PLW2901 - the same command, shorter
        if command.startswith(UNTIL_STOPPED):
            process = subprocess.Popen(
                shlex.split(command),
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            background.append(process)
            assert process.stdout
            assert process.stdout.readline(), command
            continue
        done = subprocess.run(
            shlex.split(command), cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        printed[command.removeprefix(".venv/bin/steepest ")] = done.stdout
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    assert re.search(r"^first .*(waiting|running)", printed["jobs"], flags=re.MULTILINE)
    assert printed["logs first"] == "" or printed["logs first"].startswith("Epoch 1/200 | loss ")
    assert "first is submitted" in printed["explain first"]
    cancelled = printed["cancel first 'sweep-*'"].splitlines()
    assert [line.split()[0] for line in cancelled] == ["first", "sweep-0", "sweep-1", "sweep-2", "sweep-3"]
    assert all("was cancelled" in line for line in cancelled)
    for process in background:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 0, process.args


def pattern(line: str) -> str:
    """What a line of the README stands for: its words; numbers with their units, and the node's name, are another run's."""
    words = [
        "." if re.search(r"\d|^[–…]$", word) or word.strip("(),") in {"ws", "s", "min", "%", "PC"} else re.escape(word)
        for word in line.split()
    ]
    return re.sub(r"\.(?: \.)+|(?<= )\.(?= |$)|^\.", ".+", " ".join(words)).replace(" ", r"\s+")


def test_what_one_then_sees(folder: Path) -> None:
    """Each line of the README's second example is printed by its command, once the training has been judged."""
    seen = next(block.text for block in blocks(README) if block.text.startswith("$ .venv/bin/steepest jobs first"))
    submit = next(one for one in commands() if one.startswith(".venv/bin/steepest submit --name first"))
    script = folder / "train.py"
    script.write_text(script.read_text().replace("200", "20000"))  # it does not end while it is looked at
    system = RunningSystem(folder / ".steepest", "--interval", "1s")
    system.start()
    try:
        subprocess.run(shlex.split(submit), cwd=folder, check=True, capture_output=True)
        assert system.look_for(lambda found: isinstance(found.event, c.GrowthMeasured) or None, 0, 60.0)
        assert system.look_for(lambda found: epoch_of(found.event) >= FEW or None, 0, 60.0)
        for each in seen.removeprefix("$ ").split("\n$ "):
            command, *lines = each.splitlines()
            printed = subprocess.run(
                shlex.split(command), cwd=folder, check=True, capture_output=True, text=True
            ).stdout
            for line in lines:
                assert re.search(pattern(line), printed, flags=re.MULTILINE), f"{line}\n{printed}"
    finally:
        system.end()


def epoch_of(event: c.ClusterEvent) -> float:
    """The epoch that a node reports of the job; 0: none."""
    return max((one.epoch or 0 for one in event.progress), default=0) if isinstance(event, c.NodeUsage) else 0


def test_every_reason_not_to_run_a_command_has_its_command() -> None:
    """The list of commands that are not run names none that the README lacks."""
    assert [start for start in NOT_RUN if not any(command.startswith(start) for command in commands())] == []


def test_every_target_is_there() -> None:
    """What the README calls by `make` is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    called = {words[1] for command in commands() if (words := command.split())[0] == "make"}

    assert called
    assert called - targets == set()


def test_the_scripts_are_python() -> None:
    """The training, and the five lines that make a script movable."""
    scripts = [block.text for block in blocks(README) if block.language == "python"]

    assert len(scripts) > 1
    assert all(ast.parse(script) for script in scripts)


def test_each_line_that_the_script_prints_is_read() -> None:
    """Its epoch, how many there will be, and its loss."""
    reader = LogReader("auto")
    losses = [100 / epoch for epoch in range(1, 6)]
    lines = [f"Epoch {epoch}/200 | loss {loss:.4f}" for epoch, loss in enumerate(losses, start=1)]
    text = "".join(f"{line}\n" for line in lines)
    read = [*reader.feed(text.encode()), *reader.close()]

    assert [(one.epoch, round(one.value, 4)) for one in read] == [
        (n, round(x, 4)) for n, x in enumerate(losses, start=1)
    ]
