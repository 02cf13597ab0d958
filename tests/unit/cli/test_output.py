"""Nothing from outside steers a terminal, whichever command prints it."""

from __future__ import annotations

import ast
import asyncio
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text
from tests.harness.scenarios.folded_pool import placement, submitted

import steepest.cli
from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.cli.main import main
from steepest.cli.printing.output import console, printable
from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.dead_letter import DeadLetter
from steepest.log.files.file_log import FileLog
from steepest.runtime.decode import new_record
from steepest.runtime.recovery.log_identity import open_partitions

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202ename"
SECRET = "hunter2"  # noqa: S105 - to be looked for


def is_clean(text: str) -> bool:
    """Whether a terminal shows it and does nothing else."""
    return text.replace("\n", "").isprintable()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder whose log has hostile text wherever there is room for any."""
    folder = StateFolder(tmp_path / "state")
    installation = Installation(nodes=(NodeSpec("n1", Resources(1_000)),))
    folder.create(installation)
    events = [
        submitted("job", model=HOSTILE, metric=HOSTILE, env={"TOKEN": SECRET, HOSTILE: HOSTILE}),
        placement("job", "n1", plan=HOSTILE),
        submitted("other", image=HOSTILE),
        c.JobRejected(job="other", request="request-other", reason=HOSTILE),
    ]
    letter = DeadLetter(
        topic="loss",
        partition=0,
        offset=7,
        key=HOSTILE,
        reason=HOSTILE,
        headers={HOSTILE: HOSTILE},
        value=HOSTILE.encode(),
    )

    async def write() -> None:
        log = FileLog(folder.log, installation.layout.partitions())
        await open_partitions(log, installation.layout, SystemClock())
        pool = installation.layout.of_pool("default")
        await log.append([new_record(pool, "default", event, 1) for event in events])
        await log.append([new_record(installation.layout.of_topic("dead-letters")[0], HOSTILE, letter, 1)])
        await log.close()

    asyncio.run(write())
    return folder.root


def run(*arguments: object) -> Result:
    """A command's output."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="steepest")


@pytest.mark.parametrize(
    "call",
    [
        ("jobs", "--all"),
        ("nodes",),
        ("events", "--all"),
        ("events", "--topic", "dead-letters"),
        ("explain", "job"),
        ("explain", "other"),
        ("dead-letters", "list"),
        ("dead-letters", "show", "loss/0@7"),
        ("explain", HOSTILE),
        ("cancel", HOSTILE),
        ("dead-letters", "show", HOSTILE),
        ("submit", "--name", HOSTILE, "--", "true"),
        ("submit", "--format", HOSTILE, "--", "true"),
        ("events", "--type", HOSTILE),
    ],
)
def test_what_is_on_a_log_or_in_an_argument_is_only_shown(state: Path, call: tuple[str, ...]) -> None:
    """Control characters, old and new, and those that turn the text around are blanks."""
    command, *rest = call
    group = [command, rest.pop(0)] if command == "dead-letters" else [command]
    done = run(*group, "--state", state, *rest)

    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert done.stdout + done.stderr != ""
    assert is_clean(done.stdout), done.stdout
    assert is_clean(done.stderr), done.stderr


@pytest.mark.parametrize("call", [("replay",), ("check",)])
def test_what_is_in_a_recording_is_only_shown(state: Path, call: tuple[str, ...]) -> None:
    """Its decisions, their ids and its pools have names that somebody else gave them."""
    done = run(*call, state)

    assert done.exit_code in {0, 1}
    assert is_clean(done.stdout + done.stderr)


def test_what_a_training_prints_is_only_shown(tmp_path: Path) -> None:
    """A metric may be called anything, and a line that was passed over may hold anything."""
    log = tmp_path / "train.log"
    log.write_text(json.dumps({"step": 1, f"loss{HOSTILE}": 0.5}) + f"\nloss {HOSTILE} = 3 [link=x]y[/link]\n")
    done = run("parse", log)

    assert done.exit_code == 0
    assert "owned" in done.stdout
    assert is_clean(done.stdout)


def test_a_field_of_a_workload_is_only_shown(tmp_path: Path) -> None:
    """An error repeats what it is about."""
    trace = tmp_path / "trace.jsonl"
    trace.write_text(json.dumps({HOSTILE: 1}) + "\n")
    done = run("simulate", "--workload", trace, "--cluster", "1x8cpu", "--policy", "srtf")

    assert done.exit_code == 2
    assert is_clean(done.stderr)


def test_a_jobs_variables_show_their_names_alone(state: Path) -> None:
    """Their values may be secrets; the log that holds them is readable for its user only."""
    shown = "".join(
        run(*call, "--state", state).stdout
        for call in (
            ("events", "--all"),
            ("events", "--json"),
            ("jobs", "--all", "--json"),
            ("explain", "--json", "job"),
        )
    )

    assert '"TOKEN":"***"' in shown
    assert SECRET not in shown


@given(st.text())
def test_only_what_can_be_printed_is(text: str) -> None:
    """And line ends; nothing else changes, and its length does not."""
    shown = printable(text)

    assert is_clean(shown)
    assert [now for now, was in zip(shown, text, strict=True) if was.isprintable() or was == "\n"] == [
        letter for letter in text if letter.isprintable() or letter == "\n"
    ]


def test_a_console_shows_no_more_than_that_and_takes_no_markup() -> None:
    """This holds in tables and titles with any wrapping; the console's own colours stay."""
    file = io.StringIO()
    out = console(file=file, force_terminal=True, width=200)
    table = Table(title=f"[bold]{HOSTILE}[/bold]")
    table.add_column(HOSTILE)
    table.add_row(Text(HOSTILE, "red"))
    table.add_row(HOSTILE)
    out.print(table)
    shown = file.getvalue()

    assert "[bold]" in shown
    assert "\x1b[31m" in shown
    assert not set(shown) & {"\x07", "\x9b", "\u202e"}
    assert "\x1b]0" not in shown
    assert "\x1b[2J" not in shown


def test_there_is_no_other_door() -> None:
    """No command prints but through ``output``."""
    found = []
    folder = Path(steepest.cli.__file__).parent
    looked_at = [path for path in sorted(folder.rglob("*.py")) if path != folder / "printing" / "output.py"]
    for path in looked_at:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name("click"), attr="echo" | "secho")):
                    found.append(f"{path.relative_to(folder)}:{node.lineno}")
                case ast.Call(func=ast.Name("print" | "Console")):
                    found.append(f"{path.relative_to(folder)}:{node.lineno}")
                case ast.Attribute(value=ast.Attribute(value=ast.Name("sys"), attr="stdout"), attr="write"):
                    found.append(f"{path.relative_to(folder)}:{node.lineno}")

    assert found == []
    assert len(looked_at) > 40
