"""Follows a growing file across rotation, truncation, deletion and re-creation.

It owns the file's identity and the waiting. It must never know the meaning of the bytes. Inotify makes it fast, polling
makes it correct: network file systems send no events. A path that is not a regular file, or that contains a link below the
untrusted folder, counts as absent.
"""

import asyncio
import contextlib
import fnmatch
import os
import re
import time
from collections.abc import AsyncGenerator
from functools import lru_cache
from pathlib import Path

import msgspec

from steepest import inotify
from steepest.aio import until_stopped
from steepest.errors import UntrustedError
from steepest.inotify import FileChange, FileEvents
from steepest.logger import Logger
from steepest.untrusted.files import Entry, open_file, walk

logger = Logger()

CHUNK_BYTES = 256 << 10
"""Bytes per read: much more than a line, and little enough for a hundred followed files."""

HEAD_BYTES = 64
"""First bytes of a file that are compared, to notice a file that was truncated and has grown past the old end."""


FILES_MOST = 1000
"""Files of one folder that are followed: a run has a few; a store of many runs would take too long."""

ENTRIES_MOST = 100_000
DEEPEST = 16
"""How deep a folder is searched for them."""

LOOKING_SHARE = 0.1
"""Maximum share of time spent on listing a folder: a folder of a hundred thousand files is listed less often."""


class TailCursor(msgspec.Struct, frozen=True):
    """The position of reading in a file; saved to continue after a crash.

    Attributes:
        device: the file's device, from ``stat``.
        inode: the file's inode, from ``stat``.
        offset: bytes read so far.
        head: the file's first bytes, at most 64.
    """

    device: int
    inode: int
    offset: int
    head: bytes = b""


class Chunk(msgspec.Struct, frozen=True):
    """Bytes of a file.

    Attributes:
        data: at least one byte.
        begins: whether they are the first bytes of a file that follows or replaces the one that was read before.
        place: the cursor after them.
    """

    data: bytes
    begins: bool
    place: TailCursor


async def follow(
    path: Path,
    *,
    below: Path,
    place: TailCursor | None = None,
    stop: asyncio.Event | None = None,
    poll_s: float = 1.0,
    notify: bool = True,
) -> AsyncGenerator[Chunk, None]:
    """Yields a file's bytes as they are written; waits for a file that does not exist yet.

    Args:
        path: the file that is written to; rotated files have its name as their prefix (``job.log.1``).
        below: nothing below this folder is trusted.
        place: where to continue. If that file was rotated since, its rest is read first.
        stop: once set, the existing content is read to its end and the iteration ends; None: it never ends.
        poll_s: polling period in seconds without events.
        notify: whether to use inotify.

    Raises:
        OSError: The file exists and cannot be read.
    """
    stop = stop or asyncio.Event()
    follower = _Follower(path, below, place)
    events = _folder_events(path.parent) if notify else None
    try:
        while True:
            last = stop.is_set()
            while (chunk := await asyncio.to_thread(follower.read)) is not None:
                yield chunk
            if last:
                return
            await _wait(events, stop, poll_s)
    finally:
        follower.close()
        if events is not None:
            events.close()


async def follow_folder(
    folder: Path, pattern: str, *, below: Path, stop: asyncio.Event | None = None, poll_s: float = 1.0
) -> AsyncGenerator[tuple[Path, Chunk], None]:
    """Yields the bytes of all files that match a pattern below a folder, including files that are created later.

    At most ``ENTRIES_MOST`` entries are listed and ``FILES_MOST`` files are followed; exceeding that is logged.
    Files are closed between reads.

    Args:
        folder: may be created later.
        pattern: as for ``Path.rglob``, e.g. ``events.out.tfevents.*`` or ``metrics/*``.
        below: nothing below this folder is trusted.
        stop: once set, the existing content is read to its end and the iteration ends; None: it never ends.
        poll_s: polling period in seconds. TensorBoard's and MLflow's writers flush only every few seconds.

    Raises:
        OSError: A file exists and cannot be read.
    """
    stop = stop or asyncio.Event()
    followers: dict[Path, _Follower] = {}
    read: dict[Path, tuple[int, int, int]] = {}
    while True:
        last = stop.is_set()
        began = time.monotonic()
        for entry in await asyncio.to_thread(_matching, folder, pattern, below):
            path = folder / entry.name
            if path not in followers:
                if len(followers) >= FILES_MOST:
                    _warn_once(folder, f"only {FILES_MOST} of its files are followed")
                    continue
                followers[path] = _Follower(path, below, None)
            written = (entry.stat.st_ino, entry.stat.st_size, entry.stat.st_mtime_ns)
            if read.get(path) == written:
                continue
            try:
                while (chunk := await asyncio.to_thread(followers[path].read)) is not None:
                    yield path, chunk
            finally:
                followers[path].rest()
            read[path] = written
        if last:
            return
        await _wait(None, stop, max(poll_s, (time.monotonic() - began) / LOOKING_SHARE))


def _matching(folder: Path, pattern: str, below: Path) -> list[Entry]:
    """The files that match, sorted by name."""
    parts = [re.compile(fnmatch.translate(part)) for part in pattern.split("/")]
    found = []
    try:
        for entry in walk(folder, below=below, most=ENTRIES_MOST, deepest=DEEPEST):
            names = entry.name.split("/")[-len(parts) :]
            if entry.is_file and len(names) == len(parts) and all(map(re.Pattern.match, parts, names)):
                found.append(entry)
    except FileNotFoundError:
        pass
    except UntrustedError as error:
        _warn_once(folder, str(error))
    return sorted(found, key=lambda entry: entry.name)


@lru_cache(maxsize=1024)
def _warn_once(path: Path, why: str) -> None:
    logger.warning("not followed", path=str(path), why=why)


class _Follower:
    """Reads one followed file: the open one, and rotated files that are still to be read."""

    def __init__(self, path: Path, below: Path, place: TailCursor | None) -> None:
        self._path = path
        self._below = below
        self._rests = False
        self._file: int | None = None
        self._place = place
        self._begins = False
        self._waiting: list[Path] = []
        if place is not None:
            self._resume(place)

    def read(self) -> Chunk | None:
        """The next bytes; None if all existing bytes were read."""
        if self._rests and self._place is not None:
            self._resume(self._place)
        self._rests = False
        while True:
            if self._file is None and not self._open_next():
                return None
            self._check_truncation()
            if chunk := self._read_chunk():
                return chunk
            if not self._is_replaced():
                return None
            self._leave()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def rest(self) -> None:
        """Close the file until the next ``read``, which continues at the same position."""
        self.close()
        self._rests = True

    def _resume(self, place: TailCursor) -> None:
        """Finds the file that was being read, and the newer ones."""
        with contextlib.suppress(OSError, UntrustedError):
            if _same_file(self._path, place):
                self._open(self._path, place.offset)
                return
            self._waiting = _rotated_since(self._path, place, self._below)
            if self._waiting:
                self._open(self._waiting.pop(0), place.offset)
                return
        self._begins = True

    def _open_next(self) -> bool:
        path = self._waiting.pop(0) if self._waiting else self._path
        try:
            self._open(path, 0)
        except FileNotFoundError:
            return False
        except UntrustedError as error:
            _warn_once(path, str(error))
            return False
        return True

    def _open(self, path: Path, offset: int) -> None:
        self._file = open_file(path, below=self._below)
        stat = os.fstat(self._file)
        self._place = TailCursor(stat.st_dev, stat.st_ino, offset, os.pread(self._file, HEAD_BYTES, 0))

    def _read_chunk(self) -> Chunk | None:
        assert self._file is not None and self._place is not None  # noqa: S101, PT018 - read() has opened it
        data = os.pread(self._file, CHUNK_BYTES, self._place.offset)
        if not data:
            return None
        head = self._place.head
        head = head if len(head) == HEAD_BYTES else os.pread(self._file, HEAD_BYTES, 0)
        place = msgspec.structs.replace(self._place, offset=self._place.offset + len(data), head=head)
        chunk = Chunk(data, self._begins, place)
        self._place, self._begins = place, False
        return chunk

    def _check_truncation(self) -> None:
        assert self._file is not None and self._place is not None  # noqa: S101, PT018 - read() has opened it
        short = os.fstat(self._file).st_size < self._place.offset
        head = os.pread(self._file, HEAD_BYTES, 0)
        if short or not head.startswith(self._place.head):
            self._place = msgspec.structs.replace(self._place, offset=0, head=head)
            self._begins = True

    def _is_replaced(self) -> bool:
        """Whether another file has the path now; a deleted file is kept open, because its writer may continue."""
        assert self._place is not None  # noqa: S101 - read() has opened it
        if self._waiting:
            return True
        try:
            stat = self._path.lstat()
        except OSError:
            return False
        return (stat.st_dev, stat.st_ino) != (self._place.device, self._place.inode)

    def _leave(self) -> None:
        self.close()
        self._begins = True


def _same_file(path: Path, place: TailCursor) -> bool:
    try:
        stat = path.lstat()
    except FileNotFoundError:
        return False
    return (stat.st_dev, stat.st_ino) == (place.device, place.inode)


def _rotated_since(path: Path, place: TailCursor, below: Path) -> list[Path]:
    """The file that was being read and those rotated after it, oldest first; none if it is gone."""
    dated = sorted(
        (entry.stat.st_mtime_ns, entry.name, path.parent / entry.name)
        for entry in walk(path.parent, below=below, most=ENTRIES_MOST, deepest=1)
        if entry.is_file and entry.name.startswith(f"{path.name}.") and not entry.name.endswith(_COMPRESSED)
    )
    rotated = [other for _, _, other in dated]
    at = next((at for at, other in enumerate(rotated) if _same_file(other, place)), None)
    return [] if at is None else rotated[at:]


_COMPRESSED = (".gz", ".xz", ".zst", ".bz2")


INSTANCES_MOST = 64
"""Files that a process follows by inotify. A user has 128 instances by default, which a kubelet of that user needs as well;
further files are polled, as all are besides."""


def _folder_events(folder: Path) -> FileEvents | None:
    """Events of a folder; None: rely on polling, as it is not there yet, the kernel gives no watch, or has given many."""
    if not inotify.AVAILABLE or FileEvents.instances >= INSTANCES_MOST:
        return None
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        events = opened.enter_context(contextlib.closing(FileEvents()))
        events.watch_folder(folder, FileChange.MODIFIED | FileChange.CREATED | FileChange.MOVED_IN)
        opened.pop_all()
        return events
    return None


async def _wait(events: FileEvents | None, stop: asyncio.Event, poll_s: float) -> None:
    """Waits for an event, for ``stop``, or for the polling period."""
    # The end of the polling period and a failed watch both mean: look at the files again.
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(poll_s):
            await (stop.wait() if events is None else until_stopped(events.next(), stop))
