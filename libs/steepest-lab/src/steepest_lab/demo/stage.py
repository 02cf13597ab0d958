"""Where a demo's state goes, and what must be there before it begins: a folder of its own, and what the jobs train with.

It never touches what others left: a folder that holds anything is not used.
"""

from __future__ import annotations

import os
from pathlib import Path

from steepest.app.extras import refuse_without
from steepest.errors import InputError, RecordingError

DEFAULT = Path(".steepest")
NEEDED = ("numpy", "sklearn", "steepest_sdk")


def refuse_without_libraries() -> None:
    """Say before anything is started that the trainings could not run.

    Raises:
        InputError: A library is missing.
    """
    refuse_without(NEEDED, "the demo's trainings need", "install steepest-lab, or run `make setup`")


def own_folder(asked: Path | None) -> Path:
    """An empty folder: the requested one, or the next free ``.steepest/demo-<n>``.

    Raises:
        InputError: The folder asked for holds something.
        RecordingError: No folder can be made there.
    """
    try:
        return _next_free(DEFAULT) if asked is None else _empty(asked)
    except OSError as error:
        raise RecordingError(
            f"no state folder can be made at {asked or DEFAULT}: {error.strerror}", hint="name another with --state"
        ) from error


def _empty(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise InputError(f"{folder} is not empty", hint="name a folder that is, or is not there yet, with --state")
    return folder


def _next_free(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        try:
            (parent / f"demo-{number}").mkdir()
        except FileExistsError:
            number += 1
        else:
            return parent / f"demo-{number}"


def cores() -> int:
    """The cores that this process may use, where the system tells: a container may have fewer than the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
