"""The kernel's events: which watch they name, and that a watch may end before its caller ends it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from steepest import inotify
from steepest.inotify import FileChange, FileEvents

pytestmark = pytest.mark.skipif(not inotify.AVAILABLE, reason="inotify is Linux's")

PATIENCE_S = 60.0


@pytest.fixture
def events() -> Iterator[FileEvents]:
    """An open instance."""
    with contextlib.closing(FileEvents()) as opened:
        yield opened


async def next_of(events: FileEvents) -> int | None:
    """The next event; fails if none comes."""
    async with asyncio.timeout(PATIENCE_S):
        return await events.next()


async def test_an_event_names_its_watch(events: FileEvents, tmp_path: Path) -> None:
    """A write to a file of a watched folder, and a file that is moved into one, name the watch that saw it."""
    written, folder, made = tmp_path / "written", tmp_path / "folder", tmp_path / "made"
    for one in (written, folder):
        one.mkdir()
    made.touch()
    (written / "file").touch()
    of_written = events.watch_folder(written, FileChange.MODIFIED)
    of_folder = events.watch_folder(folder, FileChange.MOVED_IN)

    (written / "file").write_bytes(b"x")
    assert await next_of(events) == of_written
    (folder / "passed over").touch()  # created there, which is not watched for
    made.rename(folder / "made")
    assert await next_of(events) == of_folder


async def test_a_watch_ends_with_its_folder(events: FileEvents, tmp_path: Path) -> None:
    """The kernel ends the watch of a folder that is removed; ending it again does nothing, and others go on."""
    gone, kept = tmp_path / "gone", tmp_path / "kept"
    gone.mkdir()
    kept.mkdir()
    first, second = (events.watch_folder(folder, FileChange.CREATED | FileChange.CLOSED) for folder in (gone, kept))

    gone.rmdir()
    assert await next_of(events) == first
    events.unwatch(first)
    (kept / "file").touch()
    assert await next_of(events) == second
    events.unwatch(second)


async def test_what_is_not_there_is_not_watched(events: FileEvents, tmp_path: Path) -> None:
    """A missing path is an OSError, and so is a file in place of a folder: the caller polls instead."""
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError):
        events.watch_folder(tmp_path / "missing", FileChange.CREATED)
    with pytest.raises(NotADirectoryError):
        events.watch_folder(tmp_path / "file", FileChange.CREATED)
