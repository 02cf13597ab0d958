"""Names for jobs whose users give none, and whether their programs can be found. Pure, except that it looks at files."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import click

STEM_LETTERS = 40
NO_SCRIPT = ("-c", "-m", "-")
"""Arguments after which a Python interpreter is given no file."""


def name_for(command: Sequence[str]) -> str:
    """A job's name: the script's, and four letters that make it another one every time."""
    stem = re.sub(r"[^a-z0-9]+", "-", _what_runs(command).lower())[:STEM_LETTERS].strip("-")
    return f"{stem or 'job'}-{os.urandom(2).hex()}"


def _what_runs(command: Sequence[str]) -> str:
    if is_python(command[0]):
        if "-m" in command[1:-1]:
            return command[command.index("-m") + 1].rpartition(".")[2]
        if script := script_of(command):
            return Path(script).stem
    return Path(command[0]).stem


def is_python(program: str) -> bool:
    """Whether a program is a Python interpreter, by its name."""
    return re.fullmatch(r"python[0-9.]*", Path(program).name) is not None


def script_of(command: Sequence[str]) -> str | None:
    """The file that a Python interpreter is asked to run; None where it is given code, a module or nothing."""
    for argument in command[1:]:
        if argument in NO_SCRIPT:
            return None
        if not argument.startswith("-"):
            return argument
    return None


def with_python(command: Sequence[str], python: Path | None) -> tuple[str, ...]:
    """A command whose bare ``python`` is ``python``, or the interpreter of that name on the caller's PATH, if there is one.

    Links are kept: an interpreter of a virtual environment is a link, and knows by its own path which packages it has.

    Raises:
        UsageError: An interpreter is named, and the command begins with no Python; or it is not there.
    """
    program = command[0]
    if python is not None:
        if not is_python(program):
            raise click.UsageError(f"--python: the command begins with {program!r}, and not with python")
        if not python.is_file():
            raise click.UsageError(f"--python: there is no program {python}")
        return (os.path.abspath(python), *command[1:])  # noqa: PTH100 - Path.resolve() would follow links
    found = shutil.which(program) if is_python(program) and "/" not in program else None
    return tuple(command) if found is None else (os.path.abspath(found), *command[1:])  # noqa: PTH100 - as above


def why_not_found(command: Sequence[str], folder: Path) -> str:
    """Why a command is unlikely to run in a folder, as seen from this process; empty if it may."""
    program = command[0]
    if "/" in program:
        if not (folder / program).is_file():
            return f"there is no program {folder / program}"
        if not os.access(folder / program, os.X_OK):
            return f"{folder / program} may not be executed: run `chmod +x {program}`, or name its interpreter"
    elif shutil.which(program) is None:
        here = f"; write ./{program}, or name its interpreter" if (folder / program).is_file() else ""
        return f"there is no program {program!r} on this shell's PATH{here}"
    script = script_of(command) if is_python(program) else None
    if script is not None and not (folder / script).exists():
        return f"there is no script {folder / script}"
    return ""
