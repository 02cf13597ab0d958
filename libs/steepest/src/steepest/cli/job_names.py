"""Names for jobs whose users give none, and whether what they ask to run can be found. Pure but for looking at files."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

STEM_LETTERS = 40
NO_SCRIPT = ("-c", "-m", "-")
"""Arguments after which a Python interpreter is given no file."""


def name_for(command: Sequence[str]) -> str:
    """A job's name: the script's, and four letters that make it another one every time."""
    stem = re.sub(r"[^a-z0-9]+", "-", _what_runs(command).lower())[:STEM_LETTERS].strip("-")
    return f"{stem or 'job'}-{secrets.token_hex(2)}"


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


def why_not_found(command: Sequence[str], folder: Path) -> str:
    """Why a command will hardly run in a folder, as far as one can see from here; empty if it may."""
    program = command[0]
    if "/" in program:
        if not (folder / program).is_file():
            return f"there is no program {folder / program}"
    elif shutil.which(program) is None:
        return f"there is no program {program!r} on this shell's PATH"
    script = script_of(command) if is_python(program) else None
    if script is not None and not (folder / script).exists():
        return f"there is no script {folder / script}"
    return ""
