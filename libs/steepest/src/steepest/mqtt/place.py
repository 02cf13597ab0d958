"""What the bridge knows after a restart: what it kept, and what it finds on the log beyond that.

It owns the file and the search. A message is acknowledged to the broker only once it is on the log, so one that was appended
and not acknowledged comes again; its origin, a header of what was appended, tells that it did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from steepest.errors import UndecodableError
from steepest.events.loss import JobUnwatched, JobWatched
from steepest.events.received import SOURCE
from steepest.log.base import Log, Record, TopicPartition
from steepest.log.files.atomic_write import write_atomically
from steepest.mqtt.payload import HEARTBEATS, LOSS, Message
from steepest.mqtt.seen import Seen, Standing, Stream
from steepest.runtime.decode import received

logger = structlog.get_logger(__name__)

ORIGIN = "mqtt"
"""The header that names the message: device, generation, number and digest."""


class Place(msgspec.Struct, kw_only=True):
    """What is kept.

    Attributes:
        streams: What devices have said.
        watched: Jobs that the bridge itself has said it watches.
        homes: The agents on whose nodes each job is or was.
        scan_from: Where to look on, in each partition.
    """

    streams: dict[str, Stream] = {}
    watched: dict[str, int] = {}
    homes: dict[str, list[str]] = {}
    scan_from: dict[str, int] = {}


def origin(message: Message) -> str:
    """The header's text."""
    return f"{message.stream}/{message.said.seq}/{message.digest}"


class Memory:
    """What was seen and what is watched, kept in a file and made up for from the log.

    Attributes:
        seen: What devices have said.
        watched: The incarnation of each job that the bridge itself watches.
        homes: The agents on whose nodes each job is or was.
    """

    def __init__(self, log: Log, kept: Path) -> None:
        self._log = log
        self._kept = kept
        self.seen = Seen()
        self.watched: dict[str, int] = {}
        self.homes: dict[str, list[str]] = {}

    async def restore(self) -> None:
        """Read what was kept, then the log from there on.

        Raises:
            LogUnavailableError: The log gives nothing now.
        """
        place = _read(self._kept) or Place()
        self.seen = Seen(place.streams)
        self.watched = place.watched
        self.homes = place.homes
        start: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        for at in await self._partitions():
            end = await self._log.end(at)
            first = max(place.scan_from.get(str(at), 0), await _first(self._log, at))
            if first < end:
                start[at], ends[at] = first, end
        reader = self._log.reader(start)
        try:
            while ends:
                for record in await reader.poll(max_records=10_000):
                    self._note(record)
                    if record.offset + 1 >= ends.get(record.at, record.offset + 2):
                        del ends[record.at]
        finally:
            await reader.close()
        self.seen.missing = 0  # what is on the log was counted when it came

    async def keep(self) -> None:
        """Keep all that is known; called where everything seen is on the log.

        Raises:
            LogUnavailableError: The log does not say where it ends.
        """
        scan_from = {str(at): await self._log.end(at) for at in await self._partitions()}
        place = Place(streams=self.seen.streams, watched=self.watched, homes=self.homes, scan_from=scan_from)
        try:
            await asyncio.to_thread(_write, self._kept, msgspec.msgpack.encode(place))
        except OSError as error:
            logger.warning("place not kept; a restart reads more of the log", file=str(self._kept), why=str(error))

    async def _partitions(self) -> Sequence[TopicPartition]:
        return [at for topic in (HEARTBEATS, LOSS) for at in await self._log.partitions(topic)]

    def _note(self, record: Record) -> None:
        match record.headers.get(ORIGIN, "").rsplit("/", 2):
            case [stream, number, digest] if number.isascii() and number.isdecimal():
                if self.seen.judge(stream, int(number), digest) is Standing.NEW:
                    self.seen.note(stream, int(number), digest)
        if SOURCE in record.headers or record.at.topic != LOSS:
            return
        try:
            event = received(record).event
        except UndecodableError:
            return
        if isinstance(event, JobWatched) and ORIGIN in record.headers:
            self.watched[event.job] = event.incarnation
        elif isinstance(event, JobUnwatched):
            self.watched.pop(event.job, None)


async def _first(log: Log, at: TopicPartition) -> int:
    """The first offset that there still is: Kafka drops old records by age, other logs drop none."""
    begin = getattr(log, "begin", None)
    return int(await begin(at)) if begin else 0


def _write(kept: Path, data: bytes) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(kept, data)


def _read(kept: Path) -> Place | None:
    try:
        return msgspec.msgpack.decode(kept.read_bytes(), type=Place)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        logger.warning("place lost; reading the log from its beginning", file=str(kept), why=str(error))
        return None
