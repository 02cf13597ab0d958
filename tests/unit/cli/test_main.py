"""The command line as a whole: what it imports, how it helps, and how errors leave it."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.harness.child import child
from tests.harness.system.running_system import STEEPEST

from steepest.cli.main import COMMANDS, HOMES, OF_THE_LAB, error_line, main


def test_help_lists_every_command_without_importing_any() -> None:
    """``steepest --help`` is for people who wait: it loads no event, no log and no asyncio."""
    script = (
        "import sys; from steepest.cli.main import main; main(['--help'], standalone_mode=False);"
        "print([name for name in sys.modules if name.split('.')[0] in ('asyncio', 'msgspec', 'rich', 'structlog')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
    assert all(f"  {name}" in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_helps_with_examples(name: str) -> None:
    """A command is the function of its name, and its help, or that of its group, shows how it is used."""
    function = name.replace("-", "_")
    package = "steepest_lab" if name in OF_THE_LAB else "steepest.cli"
    command = getattr(importlib.import_module(f"{package}.commands.{HOMES.get(name, function)}"), function)
    assert isinstance(command, click.Command)
    calls = [[name, each] for each in command.commands] if isinstance(command, click.Group) else [[name]]

    for call in calls:
        helps = [CliRunner().invoke(main, [*each, "--help"], prog_name="steepest") for each in (call, [name])]

        assert [done.exit_code for done in helps] == [0, 0]
        assert any(f"steepest {' '.join(call)}" in done.stdout.partition("Examples:")[2] for done in helps)


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"demo", "up", "top", "record", "schema"}))
def test_every_command_that_answers_has_json(name: str) -> None:
    """``--json`` is there for each command that prints more than what it does, and for each of a group."""
    package = "steepest_lab" if name in OF_THE_LAB else "steepest.cli"
    function = name.replace("-", "_")
    command = getattr(importlib.import_module(f"{package}.commands.{HOMES.get(name, function)}"), function)
    leaves = list(command.commands.values()) if isinstance(command, click.Group) else [command]

    without = [one.name for one in leaves if not any("--json" in option.opts for option in one.params)]

    assert without == (["example"] if name == "config" else [])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (["job"], "Error: No such command 'job'; did you mean jobs? (see `steepest --help`)\n"),
        (["sumbit"], "Error: No such command 'sumbit'; did you mean submit? (see `steepest --help`)\n"),
        (["ps"], "Error: No such command 'ps'; did you mean jobs? (see `steepest --help`)\n"),
        (["xyzzy"], "Error: No such command 'xyzzy' (see `steepest --help`)\n"),
        (["jobs", "--al"], "Error: No such option '--al'"),
        (
            ["cancel"],
            "Error: name a job, a pattern like 'sweep-*', --array, --queue or --node (see `steepest cancel --help`)\n",
        ),
        (["submit", "--cpu", "much", "true"], "Error: Invalid value for '--cpu': 'much' is no amount of cpu"),
        (["submit", "--cpu", "0", "true"], "Error: Invalid value for '--cpu': '0' is too little cpu"),
        (["submit", "--name", "My Job", "true"], "Error: 'My Job' is no name of a job"),
        (["submit", "--env", "novalue", "true"], "Error: --env novalue: write it like SEED=7"),
        (["submit", "--workdir", "/nowhere", "true"], "Error: the folder /nowhere is not there"),
        (["events", "--type", "Ticks"], "Error: there is no event 'Ticks' on cluster: did you mean Tick?"),
        (["up", "--policy", "steepst"], "Error: Invalid value for '--policy': 'steepst' is not one of 'steepest', "),
        (["up", "--node", "a=1", "--node", "a=2"], "Error: two nodes have the same name"),
    ],
)
def test_a_wrong_call_is_told_in_one_line(
    call: list[str], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 2, one line on standard error that says what is wrong and what to do, and nothing on standard output."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, call, prog_name="steepest")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(error)
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_error_and_its_mend_make_one_line() -> None:
    """Line ends within them are taken out, and the first step follows the message."""
    assert error_line("it broke.\nBadly.", "Mend it.") == "it broke. Badly; mend it."
    assert error_line("it broke", "") == "it broke"


def test_a_reader_that_leaves_at_once_is_no_error() -> None:
    """``steepest ... | true``: no trace, no complaint."""
    with child([*STEEPEST, "--help"]) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        complaint = process.stderr.read()

    assert complaint == ""
