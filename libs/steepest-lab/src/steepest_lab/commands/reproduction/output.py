"""The folder that a reproduction writes to, and how it shows how far it is."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from steepest.cli.printing.output import console
from steepest.errors import InputError

RECORDINGS = "recordings"
"""Folder of the recordings of real runs, in that of the report."""


def folder_of(folder: Path) -> Path:
    """The folder, made before anything runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    return folder


def unwritable(folder: Path, error: OSError) -> InputError:
    """The error for a folder in which a file cannot be written."""
    return InputError(f"cannot write to {folder}: {error.strerror}", hint="Name another folder with --out.")


def tracked(results: Iterator[Any], total: int) -> Iterable[Any]:
    """The results as they come, with a bar on a terminal."""
    if not sys.stderr.isatty():
        return results
    from rich.progress import track

    return track(results, "reproducing", total=total, console=console(stderr=True), transient=True)
