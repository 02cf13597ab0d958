"""One file of one incarnation, read from where the last process that read it stopped.

A record's sequence number is its place in the file, so a record that is sent twice is recognised by its reader. The place is
kept only after what was read up to there is in the log: after a crash some records are sent again, and none is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import structlog

from steepest.clock import Clock
from steepest.collector.allowance import BYTES_BURST, BYTES_S, Allowance
from steepest.log.files.atomic_write import write_atomically
from steepest.training_logs.reader import LogReader, ReaderState
from steepest.training_logs.recognise import AUTO, FormatError
from steepest.training_logs.records import LossRecord
from steepest.training_logs.sources.tail import TailPlace, follow

logger = structlog.get_logger(__name__)

KEEP_EVERY_S = 5.0
"""A place is kept at most this often, because keeping it syncs the disk; a crash sends that much again."""

INDEX_BITS = 20
"""A line of 1 MiB holds fewer records than this many bits count."""


class SourcePlace(msgspec.Struct, kw_only=True):
    """Where reading stands, as it is kept.

    Attributes:
        files_before: Files that were rotated away before this one; each numbers its records from its first byte.
        at_ms: The newest time that a record was given.
        has_brought_any: Whether there was any record.
        is_done: Whether all was read, and nothing will follow.
    """

    reader: ReaderState
    tail: TailPlace | None = None
    files_before: int = 0
    at_ms: int = 0
    has_brought_any: bool = False
    is_done: bool = False


class Source:
    """A file that grows until ``stop`` is set, and the records in it."""

    def __init__(
        self,
        path: Path,
        kept: Path,
        *,
        stop: asyncio.Event,
        clock: Clock,
        below: Path,
        log_format: str,
        metric: str | None,
    ) -> None:
        """Read ``path`` on from the place in ``kept``; from ``below`` on no folder is trusted.

        Raises:
            OSError: No place can be kept there.
        """
        kept.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._below = below
        self._stop = stop
        self._clock = clock
        self._kept_at = clock.monotonic()
        self._kept = kept
        self._place = read_place(kept) or SourcePlace(reader=ReaderState())
        self._reader = _reader(log_format, metric, self._place.reader)
        self._offset = self._place.tail.offset if self._place.tail else 0
        self._allowed = Allowance(BYTES_S, BYTES_BURST, clock)
        self._moved = asyncio.Event()
        self._ended = False

    @property
    def has_brought_any(self) -> bool:
        """Whether there was any record, also before the last start."""
        return self._place.has_brought_any

    async def batches(self) -> AsyncIterator[Sequence[LossRecord]]:
        """The file's records in batches, none of them empty, until all is read. The place is kept after each batch.

        Raises:
            OSError: The file is there and cannot be read.
        """
        try:
            async for records in self._read():
                if records:
                    self._place.has_brought_any = True
                    yield records
        finally:
            self._ended = True
            self._moved.set()
        self._place.is_done = True
        await self._keep()

    async def _read(self) -> AsyncIterator[Sequence[LossRecord]]:
        if self._place.is_done:
            return
        async for chunk in follow(self._path, below=self._below, place=self._tail_start(), stop=self._stop):
            if chunk.begins:
                yield self._reader.begin_source()  # the last line of the file before, numbered as such
                self._place.files_before += 1
            yield self._reader.feed(chunk.data)
            self._place.tail = chunk.place
            self._offset = chunk.place.offset
            self._moved.set()
            if early_s := self._allowed.spend(len(chunk.data)):
                if self._stop.is_set():
                    logger.warning("too much was written at the end; the rest is not read", file=str(self._path))
                    break
                await self._clock.sleep(early_s)
            if self._clock.monotonic() - self._kept_at >= KEEP_EVERY_S:
                await self._keep()
        yield self._reader.close()

    async def caught_up(self) -> None:
        """Wait until what is in the file now has been read, and sent."""
        end = await asyncio.to_thread(_size, self._path)
        while self._offset < end and not self._ended:
            self._moved.clear()
            await self._moved.wait()

    def stream(self, name: str) -> str:
        """The name under which the present file is numbered; over all files it would be longer than readers believe."""
        return f"{name}.{self._place.files_before}" if self._place.files_before else name

    def time_of(self, record: LossRecord) -> int:
        """When a record was observed: as the job says, but never before the record before it, and never in the future.

        So a clock that was ahead, and is set back, takes the records back with it.
        """
        now_ms = self._clock.now_ms()
        said_ms = now_ms if record.at_ms is None or record.at_ms <= 0 else record.at_ms
        self._place.at_ms = min(max(self._place.at_ms, said_ms), now_ms)
        return self._place.at_ms

    def _tail_start(self) -> TailPlace | None:
        """Where to read on: a reader that was restored wants its half-read line again."""
        if self._place.tail is None:
            return None
        return msgspec.structs.replace(self._place.tail, offset=self._place.reader.place.offset)

    async def _keep(self) -> None:
        self._place.reader = self._reader.snapshot()
        try:
            await asyncio.to_thread(write_atomically, self._kept, msgspec.msgpack.encode(self._place))
            self._kept_at = self._clock.monotonic()
        except OSError as error:
            logger.warning("place not kept; a restart reads some lines again", file=str(self._path), why=str(error))


def numbered(record: LossRecord) -> int:
    """A record's number by its place in its file."""
    return (record.position << INDEX_BITS) + min(record.index, (1 << INDEX_BITS) - 1)


def read_place(kept: Path) -> SourcePlace | None:
    """The place that was kept in a file; None where there is none that can be used."""
    try:
        return msgspec.msgpack.decode(kept.read_bytes(), type=SourcePlace)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        logger.warning("place lost; reading from the beginning", file=str(kept), why=str(error))
        return None


def _reader(log_format: str, metric: str | None, state: ReaderState) -> LogReader:
    try:
        return LogReader(log_format, metric, state=state)
    except FormatError as error:
        logger.warning("the job names no log format that there is; recognising it", why=str(error))
        return LogReader(AUTO, metric, state=state)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
