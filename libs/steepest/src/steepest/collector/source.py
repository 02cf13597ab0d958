"""One file of one incarnation, read from where the last process that read it stopped.

A record's sequence number is its place in the file, so a record that is sent twice is recognised by its reader. The place is
kept only after what was read up to there is in the log: after a crash some records are sent again, and none is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import structlog

from steepest.clock import Clock
from steepest.log.aside import write_aside
from steepest.training_logs.reader import LogReader, ReaderState
from steepest.training_logs.records import LossRecord
from steepest.training_logs.tail import TailPlace, follow

logger = structlog.get_logger(__name__)

KEEP_EVERY_S = 1.0
"""A place is kept at most this often, because keeping it syncs the disk; a crash sends that much again."""

INDEX_BITS = 20
"""A line of 1 MiB holds fewer records than this many bits count."""


class SourcePlace(msgspec.Struct, kw_only=True):
    """Where reading stands, as it is kept.

    Attributes:
        files_before: Files that were rotated away before this one, so that sequence numbers go on rising.
    """

    reader: ReaderState
    tail: TailPlace
    files_before: int = 0


class Source:
    """A file that grows, and the records in it."""

    def __init__(self, path: Path, kept: Path, clock: Clock, *, log_format: str, metric: str | None) -> None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._clock = clock
        self._kept_at = clock.monotonic()
        self._kept = kept
        self._place = _load(kept)
        self._reader = LogReader(log_format, metric, state=self._place.reader if self._place else None)
        self._files_before = self._place.files_before if self._place else 0

    async def batches(self, stop: asyncio.Event) -> AsyncIterator[Sequence[LossRecord]]:
        """The file's records in batches, until ``stop`` is set and all is read. The place is kept after each batch."""
        start = self._tail_start()
        async for chunk in follow(self._path, place=start, stop=stop):
            if chunk.begins:
                self._files_before += 1
                yield self._reader.begin_source()
            if records := self._reader.feed(chunk.data):
                yield records
            if self._clock.monotonic() - self._kept_at >= KEEP_EVERY_S:
                await self._keep(chunk.place)
        if records := self._reader.close():
            yield records

    def sequence(self, record: LossRecord) -> int:
        """A record's number, which rises within the source."""
        return (self._files_before << 80) + numbered(record)

    def forget(self) -> None:
        """All is read and sent: nothing is kept of it."""
        self._kept.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._kept.parent.rmdir()  # unless another source of the incarnation is still being read

    def _tail_start(self) -> TailPlace | None:
        """Where to read on: a reader that was restored wants its half-read line again."""
        if self._place is None:
            return None
        return msgspec.structs.replace(self._place.tail, offset=self._place.reader.place.offset)

    async def _keep(self, tail: TailPlace) -> None:
        place = SourcePlace(reader=self._reader.snapshot(), tail=tail, files_before=self._files_before)
        try:
            await asyncio.to_thread(write_aside, self._kept, msgspec.msgpack.encode(place))
            self._kept_at = self._clock.monotonic()
        except OSError as error:
            logger.warning("place not kept; a restart reads some lines again", file=str(self._path), why=str(error))


def numbered(record: LossRecord) -> int:
    """A record's number by its place in its file."""
    return (record.position << INDEX_BITS) + min(record.index, (1 << INDEX_BITS) - 1)


def _load(kept: Path) -> SourcePlace | None:
    try:
        return msgspec.msgpack.decode(kept.read_bytes(), type=SourcePlace)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        logger.warning("place lost; reading from the beginning", file=str(kept), why=str(error))
        return None
