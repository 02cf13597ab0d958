"""Follows a growing file: chunks as they are written, through rotation, truncation, deletion and re-creation.

Owns the file's identity and the waiting. Must never know what the bytes say. The kernel's notices (inotify) make it
quick, polling makes it right: network file systems send none.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path

import msgspec

CHUNK_BYTES = 256 << 10
"""One read: far above a line, far below what a hundred followed files may take together."""

HEAD_BYTES = 64
"""The first bytes of a file, by which one that was truncated and has grown past the old end is recognised."""


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
    place: TailPlace | None = None,
    stop: asyncio.Event | None = None,
    poll_s: float = 1.0,
    notify: bool = True,
) -> AsyncGenerator[Chunk, None]:
    """Yields a file's bytes as they come; waits for a file that is not there yet.

    Args:
        path: the file that is written to; what is rotated away keeps its beginning (``job.log.1``).
        place: where to go on. If that file was rotated away since, its rest is read first.
        stop: once set, what is there is read to its end and the iteration ends; without it, it never does.
        poll_s: seconds between looks when no notice comes.
        notify: whether to ask the kernel for notices.

    Raises:
        OSError: The file is there and can't be read.
    """
    stop = stop or asyncio.Event()
    follower = _Follower(path, place)
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

    Args:
        folder: may come later itself.
        pattern: as ``Path.rglob`` takes it, e.g. ``events.out.tfevents.*`` or ``metrics/*``.
        places: where to go on in which file.
        stop: once set, what is there is read to its end and the iteration ends; without it, it never does.
        poll_s: seconds between looks. TensorBoard's and MLflow's writers flush every few seconds themselves.

    Raises:
        OSError: A file is there and can't be read.
    """
    stop = stop or asyncio.Event()
    followers: dict[Path, _Follower] = {}
    try:
        while True:
            last = stop.is_set()
            for path in await asyncio.to_thread(lambda: sorted(folder.rglob(pattern))):
                if path not in followers and path.is_file():
                    followers[path] = _Follower(path, (places or {}).get(path))
            for path, follower in followers.items():
                while (chunk := await asyncio.to_thread(follower.read)) is not None:
                    yield path, chunk
            if last:
                return
            await _wait(_Notices(), stop, poll_s)
    finally:
        for follower in followers.values():
            follower.close()


class _Follower:
    """The file that is open now, and the ones that wait."""

    def __init__(self, path: Path, place: TailPlace | None) -> None:
        self._path = path
        self._file: int | None = None
        self._place = place
        self._begins = False
        self._waiting: list[Path] = []
        if place is not None:
            self._resume(place)

    def read(self) -> Chunk | None:
        """The next bytes; None when all that is there was read."""
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

    def _resume(self, place: TailPlace) -> None:
        """Finds the file that was being read, and those that were begun after it."""
        with contextlib.suppress(OSError):
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
        return True

    def _open(self, path: Path, offset: int) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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
            stat = self._path.stat()
        except OSError:
            return False
        return (stat.st_dev, stat.st_ino) != (self._place.device, self._place.inode)

    def _leave(self) -> None:
        self.close()
        self._begins = True


def _same_file(path: Path, place: TailPlace) -> bool:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return False
    return (stat.st_dev, stat.st_ino) == (place.device, place.inode)


def _rotated_since(path: Path, place: TailPlace) -> list[Path]:
    """The file that was being read and those rotated after it, oldest first; none if it is gone."""
    dated = sorted(
        (other.stat().st_mtime_ns, other.name, other)
        for other in path.parent.glob(f"{path.name}.*")
        if other.is_file() and other.suffix not in (".gz", ".xz", ".zst", ".bz2")
    )
    rotated = [other for _, _, other in dated]
    at = next((at for at, other in enumerate(rotated) if _same_file(other, place)), None)
    return [] if at is None else rotated[at:]


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
