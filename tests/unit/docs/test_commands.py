"""Every command that a page shows is one of the command line, with options that it has."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from click.shell_completion import BashComplete

from steepest.cli.main import COMMANDS, main
from tools.docs.markdown import ROOT, blocks, pages, spans

PAGES = [
    str(page.relative_to(ROOT))
    for page in pages()
    if page.is_relative_to(ROOT / "docs") or page.parent == ROOT or page.name == "README.md"
]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


def lines(text: str) -> Iterator[str]:
    """The commands in a page's blocks and code spans, one a line, without comments, prompts and what follows a pipe."""
    yield from (span.removeprefix(".venv/bin/") for span in spans(text))
    for block in blocks(text):
        joined = block.text.replace("\\\n", " ")
        for line in joined.splitlines():
            for part in re.split(r"&&|\|", re.sub(r"(^|\s)#\s.*", "", line)):
                yield part.strip().removeprefix("$ ").removeprefix(".venv/bin/")


def fault(command: str) -> str | None:
    """What is wrong with a command of ours; None where nothing is."""
    words = re.split(r"\s--(?:\s|$)", command, maxsplit=1)[0].split()
    context, found = click.Context(main), main.resolve_command(click.Context(main), words[1:2])[1]
    options: set[str] = {"--help", "-h"}
    for word in words[1:]:
        if isinstance(found, click.Group) and (inner := found.get_command(context, word)):
            found = inner
    assert found is not None
    options |= {name for option in found.params for name in (*option.opts, *option.secondary_opts)}
    unknown = [word for word in words[2:] if word.startswith("--") and word.partition("=")[0] not in options]
    return f"{command}: has no {', '.join(unknown)}" if unknown else None


@pytest.mark.parametrize("name", PAGES)
def test_every_command_of_a_page_is_there(name: str) -> None:
    """A page shows no command, no option and no make target that is not there."""
    shown = list(lines((ROOT / name).read_text()))
    ours = [line for line in shown if re.match(r"steepest [a-z-]+( |$)", line)]
    made = [words[1] for line in shown if (words := line.split()) and words[0] == "make" and len(words) > 1]

    assert [wrong for line in ours if (wrong := fault(line))] == []
    assert sorted(set(made) - TARGETS) == []


def test_the_table_of_commands_is_complete() -> None:
    """`docs/commands.md` lists every command, with options that it has."""
    table, listed = [], set()
    for line in (ROOT / "docs" / "commands.md").read_text().splitlines():
        if named := re.match(r"\| `([a-z-]+(?: [a-z]+)?)", line):
            table.append(f"steepest {named[1]} {' '.join(re.findall(r'--[a-z-]+', line))}")
            listed.add(named[1].partition(" ")[0])
        if named and named[1] == "schema":
            break

    assert listed == set(COMMANDS)
    assert [wrong for line in table if (wrong := fault(line))] == []


def test_the_shell_completes_commands_and_options() -> None:
    """TAB finishes a command's name, and the name of an option of that command."""
    complete = BashComplete(main, {}, "steepest", "_STEEPEST_COMPLETE")

    assert [item.value for item in complete.get_completions([], "su")] == ["submit", "suspend"]
    assert [item.value for item in complete.get_completions(["submit"], "--ch")] == ["--checkpoint"]


def test_a_wrong_command_is_found() -> None:
    """An option that a command lacks is named; what follows `--` is a job's."""
    assert fault("steepest jobs --nothing") == "steepest jobs --nothing: has no --nothing"
    assert fault("steepest submit --name x -- python --nothing") is None
    with pytest.raises(click.UsageError):
        fault("steepest nothing")
