"""Follows a growing file: chunks as they are written, through rotation, truncation, deletion and re-creation.

Owns the file's identity and the waiting. Must never know what the bytes say. The kernel's notices (inotify) make it
quick, polling makes it right: network file systems send none. What is no regular file, or is reached by a link below the
folder from which on nothing is trusted, counts as not there.
"""

import asyncio
import contextlib
import fnmatch
import os
import re
import sys
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import msgspec
import structlog

from steepest.errors import UntrustedError
from steepest.untrusted.files import Entry, open_file, walk

logger = structlog.get_logger(__name__)

CHUNK_BYTES = 256 << 10
"""One read: far above a line, far below what a hundred followed files may take together."""

HEAD_BYTES = 64
"""The first bytes of a file, by which one that was truncated and has grown past the old end is recognised."""


FILES_MOST = 1000
"""Files of one folder that are followed; a run has a few, a store of many runs has more than anybody waits for."""

ENTRIES_MOST = 100_000
DEEPEST = 16
"""How far a folder is looked through for them."""

LOOKING_SHARE = 0.1
"""Of the time: who gives a folder of a hundred thousand files waits longer for news of it."""


class TailPlace(msgspec.Struct, frozen=True):
    """Where reading a file stands; saved to go on after a crash.

    Attributes:
        device: of the file, as ``stat`` says.
        inode: of the file, as ``stat`` says.
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
        begins: whether they are the first of a file that follows another one or replaces what was read before.
        place: where the file stands behind them.
    """

    data: bytes
    begins: bool
    place: TailPlace


async def follow(
    path: Path,
    *,
    below: Path,
    place: TailPlace | None = None,
    stop: asyncio.Event | None = None,
    poll_s: float = 1.0,
    notify: bool = True,
) -> AsyncGenerator[Chunk, None]:
    """Yields a file's bytes as they come; waits for a file that is not there yet.

    Args:
        path: the file that is written to; what is rotated away keeps its beginning (``job.log.1``).
        below: from this folder on nothing is trusted.
        place: where to go on. If that file was rotated away since, its rest is read first.
        stop: once set, what is there is read to its end and the iteration ends; without it, it never does.
        poll_s: seconds between looks when no notice comes.
        notify: whether to ask the kernel for notices.

    Raises:
        OSError: The file is there and can't be read.
    """
    stop = stop or asyncio.Event()
    follower = _Follower(path, below, place)
    try:
        with _notices(path.parent, notify=notify) as notices:
            while True:
                last = stop.is_set()
                while (chunk := await asyncio.to_thread(follower.read)) is not None:
                    yield chunk
                if last:
                    return
                await _wait(notices, stop, poll_s)
    finally:
        follower.close()


async def follow_folder(
    folder: Path,
    pattern: str,
    *,
    places: Mapping[Path, TailPlace] | None = None,
    stop: asyncio.Event | None = None,
    poll_s: float = 1.0,
) -> AsyncGenerator[tuple[Path, Chunk], None]:
    """Yields the bytes of all files that match a pattern below a folder, also of those that come later.

    Of a folder without end it looks at ``ENTRIES_MOST`` entries and follows ``FILES_MOST`` files, and says so. No file
    stays open.

    Args:
        folder: may come later itself; below it nothing is trusted.
        pattern: as ``Path.rglob`` takes it, e.g. ``events.out.tfevents.*`` or ``metrics/*``.
        places: where to go on in which file.
        stop: once set, what is there is read to its end and the iteration ends; without it, it never does.
        poll_s: seconds between looks. TensorBoard's and MLflow's writers flush every few seconds themselves.

    Raises:
        OSError: A file is there and can't be read.
    """
    stop = stop or asyncio.Event()
    followers: dict[Path, _Follower] = {}
    read: dict[Path, tuple[int, int, int]] = {}
    while True:
        last = stop.is_set()
        began = time.monotonic()
        for entry in await asyncio.to_thread(_matching, folder, pattern):
            path = folder / entry.name
            if path not in followers:
                if len(followers) >= FILES_MOST:
                    _say_once(folder, f"only {FILES_MOST} of its files are followed")
                    continue
                followers[path] = _Follower(path, folder, (places or {}).get(path))
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
        await _wait(_Notices(), stop, max(poll_s, (time.monotonic() - began) / LOOKING_SHARE))


def _matching(folder: Path, pattern: str) -> list[Entry]:
    """The files that match, in the order of their names."""
    parts = [re.compile(fnmatch.translate(part)) for part in pattern.split("/")]
    found = []
    try:
        for entry in walk(folder, below=folder, most=ENTRIES_MOST, deepest=DEEPEST):
            names = entry.name.split("/")[-len(parts) :]
            if entry.is_file and len(names) == len(parts) and all(map(re.Pattern.match, parts, names)):
                found.append(entry)
    except FileNotFoundError:
        pass
    except UntrustedError as error:
        _say_once(folder, str(error))
    return sorted(found, key=lambda entry: entry.name)


@lru_cache(maxsize=1024)
def _say_once(path: Path, why: str) -> None:
    logger.warning("not followed", path=str(path), why=why)


class _Follower:
    """The file that is open now, and the ones that wait."""

    def __init__(self, path: Path, below: Path, place: TailPlace | None) -> None:
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
        """The next bytes; None when all that is there was read."""
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
        """Keep nothing open until the next ``read``, which goes on where this one was."""
        self.close()
        self._rests = True

    def _resume(self, place: TailPlace) -> None:
        """Finds the file that was being read, and those that were begun after it."""
        with contextlib.suppress(OSError, UntrustedError):
            if _same_file(self._path, place):
                self._open(self._path, place.offset)
                return
            self._waiting = _rotated_since(self._path, place)
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
            _say_once(path, str(error))
            return False
        return True

    def _open(self, path: Path, offset: int) -> None:
        self._file = open_file(path, below=self._below)
        stat = os.fstat(self._file)
        self._place = TailPlace(stat.st_dev, stat.st_ino, offset, os.pread(self._file, HEAD_BYTES, 0))

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
        """Whether another file has the name now; a deleted one is kept open, its writer may go on."""
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


def _same_file(path: Path, place: TailPlace) -> bool:
    try:
        stat = path.lstat()
    except FileNotFoundError:
        return False
    return (stat.st_dev, stat.st_ino) == (place.device, place.inode)


def _rotated_since(path: Path, place: TailPlace) -> list[Path]:
    """The file that was being read and those rotated after it, oldest first; none if it is gone."""
    dated = sorted(
        (entry.stat.st_mtime_ns, entry.name, path.parent / entry.name)
        for entry in walk(path.parent, below=path.parent, most=ENTRIES_MOST, deepest=1)
        if entry.is_file and entry.name.startswith(f"{path.name}.") and not entry.name.endswith(_COMPRESSED)
    )
    rotated = [other for _, _, other in dated]
    at = next((at for at, other in enumerate(rotated) if _same_file(other, place)), None)
    return [] if at is None else rotated[at:]


_COMPRESSED = (".gz", ".xz", ".zst", ".bz2")


class _Notices:
    """The kernel's notices about a folder, or none at all."""

    async def next(self) -> None:
        await asyncio.Event().wait()


@contextlib.contextmanager
def _notices(folder: Path, *, notify: bool) -> Iterator[_Notices]:
    if not notify or sys.platform != "linux":
        yield _Notices()
        return
    import asyncinotify  # noqa: PLC0415 - Linux only

    mask = asyncinotify.Mask.MODIFY | asyncinotify.Mask.CREATE | asyncinotify.Mask.MOVED_TO

    class Kernel(_Notices):
        async def next(self) -> None:
            await inotify.get()

    with contextlib.ExitStack() as stack:
        try:
            inotify = stack.enter_context(asyncinotify.Inotify())
            inotify.add_watch(folder, mask)
        except OSError:  # no such folder yet, or no watches left: polling does
            yield _Notices()
        else:
            yield Kernel()


async def _wait(notices: _Notices, stop: asyncio.Event, poll_s: float) -> None:
    """Waits for a notice, for the end, or for the next look."""
    tasks = [asyncio.ensure_future(notices.next()), asyncio.ensure_future(stop.wait())]
    try:
        await asyncio.wait(tasks, timeout=poll_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
