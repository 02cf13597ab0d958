"""Reads one file of one incarnation, starting where the previous process stopped.

A record's sequence number is its position in the file, so readers recognise a record that is sent twice. The cursor is
stored only after the records before it are in the log: after a crash some records are sent again, and none is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from steepest.clock import Clock
from steepest.collector.progress import LINE_BYTES
from steepest.collector.turns import Turns
from steepest.log.files.atomic_write import write_atomically
from steepest.logger import Logger
from steepest.training_logs.reader import AUTO, FormatError, LogReader, ReaderState
from steepest.training_logs.records import LossRecord
from steepest.training_logs.sources.tail import Chunk, TailCursor, follow
from steepest.training_logs.syntax.patterns import PatternError
from steepest.untrusted.allowance import BYTES_BURST, BYTES_S, Allowance

logger = Logger()

STORE_EVERY_S = 5.0
"""Minimum time between two stores of a cursor, which sync the disk; after a crash that much is sent again."""

PIECE_BYTES = 4 << 10
"""Bytes that are read into records in one turn: a few milliseconds of lines of known shapes; of lines that are all new,
30 ms."""

HELD_S = 2.0
"""How long a reading may wait for the lines that would tell more about it."""

INDEX_BITS = 20
"""Bits for the index of a record in its line: a line of 1 MiB has fewer records."""


class SourceCursor(msgspec.Struct, kw_only=True):
    """The stored state of reading.

    Attributes:
        files_before: Files that were rotated before this one; each numbers its records from its first byte.
        at_ms: The newest time that was assigned to a record.
        has_brought_any: Whether the file had any record.
        is_done: Whether the file was read completely and will not grow.
        newest: The end of what was read last: the job may do what it says for long, and across a restart.
    """

    reader: ReaderState
    tail: TailCursor | None = None
    files_before: int = 0
    at_ms: int = 0
    has_brought_any: bool = False
    is_done: bool = False
    newest: bytes = b""


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
        pattern: str = "",
        epochs: int | None = None,
        turns: Turns | None = None,
        hear: Callable[[bytes], None] | None = None,
    ) -> None:
        """Read ``path`` from the cursor stored in ``kept``; no folder below ``below`` is trusted.

        ``epochs`` are those that its user announced, ``turns`` those of all sources that are read by the same event loop.
        ``hear`` is given all that is read, and the end of what was read before a restart.

        Raises:
            OSError: No cursor can be stored there.
        """
        kept.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._below = below
        self._stop = stop
        self._clock = clock
        self._stored_at = clock.monotonic()
        self._kept = kept
        self._cursor = read_cursor(kept) or SourceCursor(reader=ReaderState())
        self._reader = _reader(log_format, metric, pattern, self._cursor.reader, epochs)
        self._offset = self._cursor.tail.offset if self._cursor.tail else 0
        self._allowed = Allowance(BYTES_S, BYTES_BURST, clock)
        self._turns = turns or Turns(clock)
        self._hear = hear
        self._moved = asyncio.Event()
        self._ended = False

    @property
    def has_brought_any(self) -> bool:
        """Whether the file had any record, including those read before a restart."""
        return self._cursor.has_brought_any

    async def batches(self) -> AsyncIterator[Sequence[LossRecord]]:
        """Yield the file's records in non-empty batches until all are read. The cursor advances after each batch.

        Raises:
            OSError: The file exists and cannot be read.
        """
        try:
            async for records in self._read():
                if records:
                    self._cursor.has_brought_any = True
                    yield records
        finally:
            self._ended = True
            self._moved.set()
        self._cursor.is_done = True
        await self._store()

    async def _read(self) -> AsyncIterator[Sequence[LossRecord]]:
        if self._cursor.is_done:
            return
        if self._hear:
            self._hear(self._cursor.newest)
        async for chunk in self._chunks():
            if chunk is None:
                yield self._reader.release()
                continue
            if chunk.begins:
                yield self._reader.begin_source()  # the last line of the previous file, with that file's number
                self._cursor.files_before += 1
            if self._hear:
                self._cursor.newest = (self._cursor.newest + chunk.data[-LINE_BYTES:])[-LINE_BYTES:]
                self._hear(chunk.data)
            for begin in range(0, len(chunk.data), PIECE_BYTES):
                piece = chunk.data[begin : begin + PIECE_BYTES]
                yield await self._turns.take(partial(self._reader.feed, piece))
            self._cursor.tail = chunk.place
            self._offset = chunk.place.offset
            self._moved.set()
            if early_s := self._allowed.spend(len(chunk.data)):
                if self._stop.is_set():
                    logger.warning("too much output at the end; the rest is not read", file=str(self._path))
                    break
                await self._clock.sleep(early_s)
            if self._clock.monotonic() - self._stored_at >= STORE_EVERY_S:
                await self._store()
        yield self._reader.close()

    async def _chunks(self) -> AsyncIterator[Chunk | None]:
        """Yield the file's chunks, and None where readings were held back for ``HELD_S``."""
        chunks = follow(self._path, below=self._below, place=self._tail_start(), stop=self._stop)
        coming = asyncio.ensure_future(anext(chunks, None))
        held_at: float | None = None
        try:
            while True:
                now = self._clock.monotonic()
                held_at = (now if held_at is None else held_at) if self._reader.is_holding else None
                wait_s = None if held_at is None else max(held_at + HELD_S - now, 0.0)
                if wait_s == 0.0 or not (await asyncio.wait({coming}, timeout=wait_s))[0]:
                    held_at = None
                    yield None
                    continue
                if (chunk := coming.result()) is None:
                    return
                coming = asyncio.ensure_future(anext(chunks, None))
                yield chunk
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
            await chunks.aclose()

    async def caught_up(self) -> None:
        """Wait until the file's present content has been read and sent."""
        end = await asyncio.to_thread(_size, self._path)
        while self._offset < end and not self._ended:
            self._moved.clear()
            await self._moved.wait()

    def stream(self, name: str) -> str:
        """The stream name of the current file; a number for each file keeps sequence numbers in the accepted range."""
        return f"{name}.{self._cursor.files_before}" if self._cursor.files_before else name

    def time_of(self, record: LossRecord) -> int:
        """When a record was observed: as reported, but never before the previous record and never in the future.

        If a clock that was ahead is set back, the times follow it back.
        """
        now_ms = self._clock.now_ms()
        said_ms = now_ms if record.at_ms is None or record.at_ms <= 0 else record.at_ms
        self._cursor.at_ms = min(max(self._cursor.at_ms, said_ms), now_ms)
        return self._cursor.at_ms

    def _tail_start(self) -> TailCursor | None:
        """Where to read on: a reader that was restored wants its half-read line again."""
        if self._cursor.tail is None:
            return None
        return msgspec.structs.replace(self._cursor.tail, offset=self._cursor.reader.place.offset)

    async def _store(self) -> None:
        self._cursor.reader = self._reader.snapshot()
        try:
            await asyncio.to_thread(write_atomically, self._kept, msgspec.msgpack.encode(self._cursor))
            self._stored_at = self._clock.monotonic()
        except OSError as error:
            logger.warning("cursor not stored; a restart reads some lines again", file=str(self._path), why=str(error))


def numbered(record: LossRecord) -> int:
    """A record's sequence number: its position in its file."""
    return (record.position << INDEX_BITS) + min(record.index, (1 << INDEX_BITS) - 1)


def read_cursor(kept: Path) -> SourceCursor | None:
    """The cursor stored in a file; None if there is none or it cannot be read."""
    try:
        return msgspec.msgpack.decode(kept.read_bytes(), type=SourceCursor)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        logger.warning("cursor lost; reading from the beginning", file=str(kept), why=str(error))
        return None


def _reader(log_format: str, metric: str | None, pattern: str, state: ReaderState, epochs: int | None) -> LogReader:
    try:
        return LogReader(log_format, metric, pattern or None, epochs=epochs, state=state)
    except (FormatError, PatternError) as error:
        logger.warning("the job names an unknown log format, or a wrong pattern; recognising it", why=str(error))
        return LogReader(AUTO, metric, epochs=epochs, state=state)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
