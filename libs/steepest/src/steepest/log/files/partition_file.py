"""One partition's file: counts its lines, finds their positions, appends to it, removes its oldest ones.

It owns the file's bytes and the rule that complete lines never change. Of a line's content it knows no more than the offset.
The oldest lines are removed by another file that takes this one's place; processes that have this one open go on in it.

A line counts once its newline is written. Bytes after the last newline are a torn tail: another process is writing it at the
moment, or died while it did. Only the holder of the partition's lock can distinguish these, so only an append removes it.
"""

from __future__ import annotations

import asyncio
import bisect
import math
import os
import re
from collections.abc import Callable
from pathlib import Path

from steepest.errors import LogEpochError, LogUnavailableError, RecordingError, UntrustedError
from steepest.log.base import TopicPartition
from steepest.log.files.atomic_write import write_atomically
from steepest.log.files.record_lines import MAX_LINE_BYTES
from steepest.logger import Logger
from steepest.untrusted.files import open_file

CHUNK_BYTES = 2**20
"""Read at a time: large compared to the cost of a call, small enough for the event loop (0.2 ms from the page cache)."""

_FIRST_OFFSET = re.compile(rb'\{"topic":"[^"]*","partition":\d+,"offset":(\d+),')

_log = Logger()


class PartitionFile:
    """The file of one partition.

    Attributes:
        begin: The offset of its first line.
        records: The offset after the complete lines found so far.
        size: The size of those lines in bytes.
        openings: How often the file was opened. In a trimmed one, lines have other positions.
    """

    def __init__(self, at: TopicPartition, path: Path, *, begin: Callable[[], int] = int, read_only: bool) -> None:
        """Open the file, which must exist.

        Args:
            at: The partition.
            path: The file.
            begin: Gives the partition's first offset; where a trim was interrupted, the file has lines before it.
            read_only: Whether the file must not be changed.

        Raises:
            LogUnavailableError: It cannot be opened.
            RecordingError: It is opened for reading only, and is no regular file, or a link leads to it.
        """
        self.at = at
        self.path = path
        self._begin_of = begin
        self._read_only = read_only
        self._file: int | None = None
        self.begin = self.openings = 0
        self._open()

    def _open(self) -> None:
        try:
            # Others may have made the recording: its folders lie two above the file.
            file = (
                open_file(self.path, below=self.path.parent.parent)
                if self._read_only
                else os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            )
        except OSError as error:
            raise self._unavailable("cannot be opened", error) from error
        except UntrustedError as error:
            raise RecordingError(str(error), hint="Restore the file, or check its permissions.") from error
        first, begin = _FIRST_OFFSET.match(os.pread(file, 512, 0)), self._begin_of()
        begin = min(begin, int(first[1])) if first else begin
        if self.openings and begin <= self.begin:
            os.close(file)
            raise self._replaced("was removed")
        self.close()
        self._file, self.openings = file, self.openings + 1
        self.begin = self.records = begin
        self.size, self._index = 0, [(begin, 0)]

    def refresh(self) -> int:
        """Go on in the file that has taken this one's place, if one has; return how often it was opened.

        Raises:
            As for a new one; and LogEpochError: The other file is not this one without its oldest lines.
        """
        if not os.fstat(self._opened()).st_nlink and self.path.exists():
            self._open()
        return self.openings

    def lines_at(self, position: int) -> bytes:
        """Complete lines from a position on: a chunk of them, or a single longer one; empty if there is none yet.

        Raises:
            LogEpochError: The file ends before the position, or was removed.
            LogUnavailableError: It cannot be read, or was closed.
            RecordingError: A line is longer than any that can be written.
        """
        length = CHUNK_BYTES
        while True:
            data = self._read(position, length)
            end = data.rfind(b"\n") + 1
            # The kernel reads page by page, and a torn line may be removed and overwritten between two pages. Such a mix of
            # old and new bytes is detected by reading again.
            if end and self._read(position, end) != data[:end]:
                continue
            if end or len(data) < length:
                return data[:end]
            if length > MAX_LINE_BYTES:
                raise RecordingError(
                    f"{self.path}: from byte {position} on, {length} bytes have no newline",
                    hint="The file is damaged from there on: restore it, or truncate it there.",
                )
            length *= 2

    def scan(self) -> bool:
        """Count the lines in the next chunk that was not scanned yet; return whether there were any.

        Raises:
            As ``lines_at``.
        """
        data = self.lines_at(self.size)
        self._note(data.count(b"\n"), len(data))
        return bool(data)

    async def scan_until(self, offset: float = math.inf) -> None:
        """Count lines up to this offset, or all of them; other tasks run in between.

        Raises:
            As ``lines_at``.
        """
        while self.records < offset and self.scan():  # noqa: ASYNC110 - it yields, it does not wait for an event
            await asyncio.sleep(0)

    def near(self, offset: int) -> tuple[int, int]:
        """The last indexed offset up to this one, and its line's position in bytes."""
        return self._index[bisect.bisect_right(self._index, offset, key=lambda entry: entry[0]) - 1]

    def offset_near(self, position: float) -> int:
        """The last indexed offset whose line begins at most this many bytes into the file, or else the first one."""
        return self._index[max(0, bisect.bisect_right(self._index, position, key=lambda entry: entry[1]) - 1)][0]

    def torn_bytes(self, position: int) -> int:
        """How many bytes the file has behind this position, the end of its last complete line.

        Raises:
            As ``lines_at``.
        """
        return self._check_same(position) - position

    def append(self, lines_from: Callable[[int], bytes]) -> int:
        """Write lines in one call. The caller holds the partition's lock.

        If only a part is written, its complete lines stay, because a reader may have seen them, and the rest is removed,
        so that the next append starts a line.

        Args:
            lines_from: Returns the lines for the offset of the first one.

        Returns:
            The offset of the first line.

        Raises:
            LogEpochError: The file became shorter, or was removed.
            LogUnavailableError: Not all lines are written.
        """
        while self.scan():
            pass
        torn = self.torn_bytes(self.size)
        try:
            if torn:
                _log.warning("torn line removed", file=str(self.path), position=self.size, bytes=torn)
                os.ftruncate(self._opened(), self.size)
            first = self.records
            self._write(lines_from(first))
        except OSError as error:
            raise self._unavailable("cannot be written to", error) from error
        return first

    def trim(self, before: int) -> None:
        """Put a file without the lines below this offset in this one's place. The caller holds the partition's lock.

        Raises:
            As ``lines_at``, and OSError: It is not there; this one still is.
        """
        near, position = self.near(before)
        while near < before:
            lines = self.lines_at(position)[:-1].split(b"\n")[: before - near]
            near, position = near + len(lines), position + sum(map(len, lines)) + len(lines)
        starts = range(position, os.fstat(self._opened()).st_size, CHUNK_BYTES)
        write_atomically(self.path, (os.pread(self._opened(), CHUNK_BYTES, start) for start in starts))

    def sync(self) -> None:
        """Wait until all bytes are on the disk.

        Raises:
            LogUnavailableError: They may not be.
        """
        try:
            os.fsync(self._opened())
        except OSError as error:
            raise self._unavailable("cannot be synced", error) from error

    def close(self) -> None:
        """Close the file; later calls raise an error."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _read(self, position: int, length: int) -> bytes:
        try:
            data = os.pread(self._opened(), length, position)
        except OSError as error:
            raise self._unavailable("cannot be read", error) from error
        if not data:
            self._check_same(position)
        return data

    def _write(self, lines: bytes) -> None:
        written = 0
        try:
            while written < len(lines):
                written += os.write(self._opened(), memoryview(lines)[written:])
        finally:
            end = lines.rfind(b"\n", 0, written) + 1
            self._note(lines.count(b"\n", 0, end), end)
            if end < written:
                os.ftruncate(self._opened(), self.size)

    def _note(self, records: int, length: int) -> None:
        if self.size - self._index[-1][1] >= CHUNK_BYTES:
            self._index.append((self.records, self.size))
        self.records += records
        self.size += length

    def _check_same(self, position: int) -> int:
        found = os.fstat(self._opened())
        if not (found.st_nlink or self.path.exists()):
            raise self._replaced("was removed")
        if found.st_size < position:
            raise self._replaced(f"is shorter than the {position} bytes read before")
        return found.st_size

    def _replaced(self, what: str) -> LogEpochError:
        return LogEpochError(
            f"{self.path}: {what}: the log was replaced",
            hint="Stop all processes that use the log, and start them again without their saved state.",
        )

    def _opened(self) -> int:
        if self._file is None:
            raise LogUnavailableError(f"{self.path}: this log was closed", hint="Open it again.")
        return self._file

    def _unavailable(self, what: str, error: OSError) -> LogUnavailableError:
        return LogUnavailableError(
            f"{self.path}: {what}: {error.strerror} (errno {error.errno})",
            hint="Free disk space, or check the file's permissions; no restart is needed.",
        )
