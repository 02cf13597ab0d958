"""``steepest submit`` before anything runs: which interpreter, which names, and what is in the log."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.cli.conftest import Holding

from steepest.app.installation import login_name
from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.cli.commands.submit import EPILOG
from steepest.cli.main import main
from steepest.cli.pool.stored_pool import look
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.read_models.changes.job_changes import free_name

SPEC = c.JobSpec(command=("true",))


def call(folder: StateFolder, *arguments: str) -> Result:
    """``steepest submit`` on a folder that no system runs on."""
    return CliRunner().invoke(main, ["submit", "--state", str(folder.root), *arguments], prog_name="steepest")


def spec_of(folder: StateFolder, job: str) -> c.JobSpec:
    """What the log holds of a job."""
    return look(read_settings({"state_dir": folder.root})).job(job).spec


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The interpreter that the caller's shell finds as ``python``: that of a virtual environment, so a link."""
    its = tmp_path / "venv" / "bin" / "python"
    its.parent.mkdir(parents=True)
    its.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(its.parent), prepend=os.pathsep)
    return its


def test_a_bare_python_is_the_callers(holding: Holding, python: Path) -> None:
    """The job gets the interpreter of the shell that submits it, by the path that leads to its packages; it is said."""
    folder = holding()
    done = call(folder, "--name", "a", "--", "python", "-c", "pass")

    assert spec_of(folder, "a").command == (str(python), "-c", "pass")
    assert f"python is {python}" in done.stderr


def test_a_named_interpreter_is_used(holding: Holding, python: Path) -> None:
    """``--python`` comes before the shell's; it is refused for another program, and if it is not there."""
    folder = holding()
    call(folder, "--name", "a", "--python", sys.executable, "--", "python3", "-c", "pass")

    assert spec_of(folder, "a").command[0] == sys.executable
    assert "the command begins with 'true'" in call(folder, "--python", str(python), "--", "true").stderr
    assert "there is no program /nowhere" in call(folder, "--python", "/nowhere", "--", "python", "x.py").stderr


@pytest.mark.parametrize(
    ("options", "command"), [((), "./python"), ((), sys.executable), (("--image", "mine:1"), "python")]
)
def test_another_program_stays_as_it_is(holding: Holding, python: Path, options: tuple[str, ...], command: str) -> None:
    """A path is the user's own choice, and an image has an interpreter of its own."""
    assert python.exists()
    folder = holding()
    call(folder, "--force", "--name", "a", *options, "--", command, "-c", "pass")

    assert spec_of(folder, "a").command[0] == command


@pytest.mark.parametrize(
    ("command", "steps", "epochs"),
    [
        ("python train.py --epochs 20", None, 20),
        ("./train.sh --num_train_epochs=3 --max_steps -1 --warmup-steps 100", None, 3),
        ("python train.py trainer.max_epochs=10 --steps-per-epoch 5", None, 10),
        ("torchrun train.py --max-steps 800 --save_steps 50", 800, None),
        ("python train.py --epochs 5 --epochs 6", None, None),
    ],
)
def test_a_command_that_states_its_length_announces_it(
    holding: Holding, command: str, steps: int | None, epochs: int | None
) -> None:
    """Unless it states two, or its user announces one."""
    folder = holding()
    call(folder, "--name", "a", "--force", "--", *command.split())
    call(folder, "--name", "b", "--force", "--epochs", "7", "--", *command.split())

    assert (spec_of(folder, "a").steps, spec_of(folder, "a").epochs) == (steps, epochs)
    assert (spec_of(folder, "b").steps, spec_of(folder, "b").epochs) == (None, 7)


def test_a_pattern_is_in_the_log(holding: Holding) -> None:
    """The collector reads by it; one that is no expression is refused."""
    folder = holding()
    call(folder, "--name", "a", "--pattern", r"cost: (?P<value>\S+)", "--", "true")

    assert spec_of(folder, "a").pattern == r"cost: (?P<value>\S+)"
    refused = call(folder, "--name", "b", "--pattern", "(", "--", "true")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("Error: ")


def test_a_gang_says_which_nodes(holding: Holding, tmp_path: Path) -> None:
    """Its rule is in the log as it says it."""
    file = tmp_path / "gang.toml"
    file.write_text('command = ["true"]\nreplicas = 2\n[node_rule]\ntolerates = [{key = "gpu", operator = "Exists"}]\n')
    folder = holding()
    call(folder, "-f", str(file), "--name", "g")

    assert spec_of(folder, "g").node_rule is not None


def test_an_array_is_as_many_jobs(holding: Holding) -> None:
    """Each has its index in its name and its environment; variables of the user's stay."""
    folder = holding()
    done = call(folder, "--name", "a", "--array", "3", "--env", "SEED=1", "--", "true")

    assert [line.split()[0] for line in done.stdout.splitlines()] == ["a-0", "a-1", "a-2"]
    assert spec_of(folder, "a-2").env == {"SEED": "1", "STEEPEST_ARRAY_INDEX": "2"}


def test_a_job_that_is_over_can_be_submitted_again(holding: Holding) -> None:
    """The new job gets the next free name, since a name stands for one job in the log; one that is not over is refused."""
    ended = c.JobEnded(job="a", outcome=c.Outcome.FAILED, exit_status=1)
    folder = holding(c.JobSubmitted(job="a", request="r", spec=SPEC), c.JobAdmitted(job="a", request="r"), ended)

    first = call(folder, "--name", "a", "--", "true")
    again = call(folder, "--name", "a", "--", "true")

    assert "a job named a is over already; this one is a.2" in first.stderr
    assert first.stdout == "a.2 waits in the log\n"
    assert again.stdout == "a.3 waits in the log\n"


def test_a_free_name_is_kept() -> None:
    """Only that of a job that is over gives way; that of one that still runs is for the system to refuse."""
    over = {"a": True, "b": False, "a.2": False}

    assert [free_name(name, over.get) for name in ("a", "b", "c")] == ["a.3", "b", "c"]


def test_the_examples_are_not_refused(holding: Holding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example of ``submit --help`` can be submitted where nodes have CPU alone, as those of ``steepest up``."""
    monkeypatch.chdir(tmp_path)
    folder = holding()
    lines = [line for line in EPILOG.splitlines() if line.startswith("  steepest submit")]
    lines = [line for line in lines if not any(word in line for word in ("--server", "--gpus", "--after"))]
    examples = [shlex.split(line)[2:] for line in lines]

    assert len(examples) > 3
    for example in examples:
        assert call(folder, "--force", *(word for word in example if word != "--wait")).exit_code == 0


def test_a_name_of_users_objects_is_taken_by_nobody_else(holding: Holding) -> None:
    """In a pool on Kubernetes, where the log-collector gives such names; elsewhere it is a name like another."""
    folder = holding()
    assert call(folder, "--name", "victim.0a1b2c3d", "--", "true").exit_code == 0
    nodes = (NodeSpec("n1", Resources(1_000), engine="kubernetes://n/c:/v"),)
    folder.create(Installation(nodes=nodes))
    refused = call(folder, "--name", "other.0a1b2c3d", "--", "true")

    assert refused.exit_code == 2
    assert "other.0a1b2c3d: names that end with a dot" in refused.stderr


def test_what_runs_at_the_end_is_a_job_of_its_own(holding: Holding) -> None:
    """After any end, where the job runs and with its variables, with little CPU and for a bounded time; of an array once."""
    folder = holding()
    call(folder, "--name", "a", "--env", "K=v", "--queue", "q", "--on-end", "echo $K >> log", "--", "true")
    end = spec_of(folder, "a-end")
    assert (end.command, end.after, end.after_any) == (("/bin/sh", "-c", "echo $K >> log"), ("a",), True)
    assert (end.env, end.queue, end.requests.cpu_m, end.time_limit_ms) == ({"K": "v"}, "q", 100, 600_000)
    assert end.working_dir == spec_of(folder, "a").working_dir
    call(folder, "--name", "s", "--array", "3", "--on-end", "true", "--", "true")
    assert (spec_of(folder, "s-end").after, spec_of(folder, "s-end").env) == (("s-0", "s-1", "s-2"), {})
    assert look(read_settings({"state_dir": folder.root})).job("a").user == login_name()


def test_a_job_comes_after_ends_of_one_kind(holding: Holding) -> None:
    """Those that finished, or any; not both."""
    folder = holding(c.JobSubmitted(job="a", request="r", spec=SPEC))
    call(folder, "--name", "b", "--after-any", "a", "--", "true")
    assert (spec_of(folder, "b").after, spec_of(folder, "b").after_any) == (("a",), True)
    assert "exclude each other" in call(folder, "--after", "a", "--after-any", "a", "--", "true").stderr


def test_a_sweep_has_a_job_for_each_choice_of_values(holding: Holding, python: Path) -> None:
    """The values are in the commands, and so in what `jobs` shows; a value without a place, or another count, is refused."""
    folder = holding()
    options = ("--force", "--name", "s", "--param", "lr=1,2", "--param", "wd=0,3", "--array", "4%2")
    call(folder, *options, "--", "python", "x.py", "--lr={lr}", "{wd}")
    commands = [spec_of(folder, f"s-{number}").command for number in range(4)]
    assert [(command[0], *command[2:]) for command in commands] == [
        (str(python), f"--lr={lr}", wd) for lr in "12" for wd in "03"
    ]
    assert (spec_of(folder, "s-3").array_most, spec_of(folder, "s-3").env) == (2, {"STEEPEST_ARRAY_INDEX": "3"})
    assert "the command has no {lr}" in call(folder, "--param", "lr=1", "--", "true").stderr
    assert "--param makes 2 jobs" in call(folder, "--param", "a=1,2", "--array", "3", "--", "true", "{a}").stderr
