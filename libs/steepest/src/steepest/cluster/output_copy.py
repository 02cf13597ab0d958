"""Keeps what a container prints in ``output.log`` and ``output.log.1``: every byte once, and not more than fits into them.

It owns both files, and where to go on after an interruption (a full disk, an engine or adapter that died). An engine keeps
only the newest part of what was printed, so a place in it is known by the time of a line, as the engine noted it. It must
never know how an engine is asked. If several adapters share a state folder, one copies: it holds the lock of
``copied.json``, which the kernel releases when it dies. Calls block.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from collections import OrderedDict
from datetime import datetime
from typing import Self

import msgspec

from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.errors import UntrustedError
from steepest.logger import Logger
from steepest.untrusted import json

OUTPUT_BYTES_MOST = 64 << 20  # of each of two files, as a local job's supervisor keeps them
MISSING = b"\n[steepest: lines may be missing here]\n"
_SLACK_S = 0.1
"""Lines of a container's two streams may be kept in another order than that of their times, by so much."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
_RECORD_BYTES = 256
_STREAMS = 2
_KNOWN_LINES_MOST = 8_192
"""Lines that are known again: Docker Engine 20.10 may send the first of its newest file twice to who follows."""

_MESSAGE_MOST = 500

_log = Logger()


class CopyPosition(msgspec.Struct, frozen=True, kw_only=True):
    """``copied.json``: the newest line in the files that is later than all lines before it.

    Attributes:
        line: Its time, as the engine writes it; texts of equal length, in the order of the times.
        since: The time of the earliest line that may have gone on behind it.
        file: The inode of ``output.log`` at that time.
        size: Of that file, without the line; less than 0 if the line is in files before it.
    """

    line: str
    since: str
    file: int
    size: int


class OutputCopy:
    """Both files, open and locked. Make it with :meth:`locked`."""

    def __init__(self, folder: IncarnationFolder, inside: int, lock: int, file: int) -> None:
        self._name = folder.output.name
        self._inside = inside  # the folder itself: another job of the name may have taken over its path
        self._lock = lock
        self._file = file
        self._size = os.fstat(file).st_size
        _append_only(file)
        self._unended: dict[str, None] = {}
        self._known: OrderedDict[int, None] = OrderedDict()  # hashes of the last lines
        self._position: CopyPosition | None = None
        self._latest = ""
        self._is_found = False
        self._skip = 0

    @classmethod
    def locked(cls, folder: IncarnationFolder, patience_s: float) -> Self | None:
        """Lock and open an incarnation's files; None if another process copies.

        Raises:
            OSError: The folder is gone, for example.
        """
        held = [os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        try:
            # Adapters before ``copied.json`` was there lock the file itself.
            for path in (folder.copied, folder.output):
                taken = incarnation_locks.take(path.name, patience_s, inside=held[0])
                if taken is None:
                    _close(held)
                    return None
                held.append(taken)
            return cls(folder, *held)
        except BaseException:
            _close(held)
            raise

    def close(self) -> None:
        """Let another process copy."""
        _close([self._inside, self._lock, self._file])

    def begin(self) -> float | None:
        """Prepare for lines from the oldest on; returns since when they are needed, in Unix seconds (None: all)."""
        self._position = position = self._recorded()
        self._unended = {}
        self._known = OrderedDict()
        self._is_found = position is None
        self._latest = position.line if position else ""
        self._skip = max(self._size - (position.size if position else 0), 0)
        return datetime.fromisoformat(position.since).timestamp() - _SLACK_S if position else None

    def add(self, at: str, text: bytes) -> bool:
        """Append a line, or a piece of one, unless it is there already; returns whether something was appended.

        Args:
            at: The line's time, as the engine writes it. Without one it is no output, but what an engine says about it.
            text: It ends with a line feed if nothing of its line follows.

        Raises:
            OSError: It was not appended whole: begin again.
        """
        if _TIME.fullmatch(at) is None:
            _log.info("no output", file=self._name, said=f"{at} {text.decode(errors='replace')}"[:_MESSAGE_MOST])
            return False
        is_line = text.endswith(b"\n") and at not in self._unended
        self._unended.pop(at, None)
        if not text.endswith(b"\n"):
            self._unended[at] = None
            if len(self._unended) > _STREAMS:  # the engine was restarted in the middle of a line
                del self._unended[next(iter(self._unended))]
        if not self._is_found:
            # No line before the recorded one was as late as it is.
            if at < self._latest:
                return False
            self._is_found = True
            if at > self._latest:
                self._skip = 0
                self._append(MISSING)
        if is_line and self._is_repeated(at, text):
            return False
        skipped = min(self._skip, len(text))
        self._skip -= skipped
        is_latest, self._latest = at > self._latest, max(at, self._latest)
        if skipped == len(text):
            return False
        size = self._append(text[skipped:])
        if is_latest and not skipped:
            since = min([at, *self._unended])
            self._note(CopyPosition(line=at, since=since, file=os.fstat(self._file).st_ino, size=size))
        return True

    def _is_repeated(self, at: str, text: bytes) -> bool:
        line = hash((at, text))
        if line in self._known:
            return True
        self._known[line] = None
        if len(self._known) > _KNOWN_LINES_MOST:
            self._known.popitem(last=False)
        return False

    def _append(self, text: bytes) -> int:
        """Append to the file, or to a new one if it is full; returns the size of the file before."""
        if self._size + len(text) > OUTPUT_BYTES_MOST:
            self._rotate()
        before = self._size
        rest = memoryview(text)
        while rest:
            written = os.write(self._file, rest)
            self._size += written
            rest = rest[written:]
        return before

    def _rotate(self) -> None:
        os.rename(self._name, f"{self._name}.1", src_dir_fd=self._inside, dst_dir_fd=self._inside)
        new = incarnation_locks.take(self._name, 0.0, inside=self._inside)
        if new is None:
            raise BlockingIOError(errno.EAGAIN, f"another process copies into {self._name}")
        _append_only(new)
        if self._position is not None:
            self._note(self._behind(self._position, self._size, new))
        os.close(self._file)
        self._file, self._size = new, os.fstat(new).st_size

    def _recorded(self) -> CopyPosition | None:
        try:
            position = json.decode(os.pread(self._lock, _RECORD_BYTES, 0), CopyPosition)
        except UntrustedError:
            return None
        with contextlib.suppress(FileNotFoundError):
            older = os.stat(f"{self._name}.1", dir_fd=self._inside)
            if older.st_ino == position.file:  # it was cut off between the steps of a rotation
                position = self._behind(position, older.st_size, self._file)
        return position

    @staticmethod
    def _behind(position: CopyPosition, size: int, file: int) -> CopyPosition:
        """The same place as seen from a file that follows one of this size."""
        return msgspec.structs.replace(position, file=os.fstat(file).st_ino, size=position.size - size)

    def _note(self, position: CopyPosition) -> None:
        os.pwrite(self._lock, msgspec.json.encode(position).ljust(_RECORD_BYTES), 0)
        self._position = position


def _append_only(file: int) -> None:
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)


def _close(files: list[int]) -> None:
    for file in reversed(files):
        os.close(file)
