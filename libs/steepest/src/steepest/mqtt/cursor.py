"""The bridge's cursor: what it saved before a restart, and what the log holds beyond that.

It owns the file and the search. A message is acknowledged to the broker only after it is on the log, so a message that was
appended and not acknowledged is delivered again. Its origin, a header of the record, shows that it was appended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from steepest.errors import UndecodableError
from steepest.events.loss import JobUnwatched, JobWatched
from steepest.events.received import SOURCE
from steepest.log.base import Log, Record, TopicPartition
from steepest.log.files.atomic_write import write_atomically
from steepest.logger import Logger
from steepest.mqtt.deduplication import Deduplication, DeviceStream, SequenceCheck
from steepest.mqtt.payload import HEARTBEATS, LOSS, DeviceMessage
from steepest.runtime.decode import received

logger = Logger()

ORIGIN = "mqtt"
"""The header that names the message: device, generation, number and digest."""


class SavedCursor(msgspec.Struct, kw_only=True):
    """The content of the file.

    Attributes:
        streams: The last messages of each device.
        watched: Jobs of which the bridge itself has appended ``JobWatched``, and their incarnation.
        agents: The agents on whose nodes each job is or was.
        offsets: The first offset of each partition that is not covered by the rest.
    """

    streams: dict[str, DeviceStream] = {}
    watched: dict[str, int] = {}
    agents: dict[str, list[str]] = {}
    offsets: dict[str, int] = {}


def origin(message: DeviceMessage) -> str:
    """The header's text."""
    return f"{message.stream}/{message.envelope.seq}/{message.digest}"


class BridgeCursor:
    """The bridge's memory of messages and jobs, saved in a file and completed from the log.

    Attributes:
        deduplication: The last messages of each device.
        watched: The incarnation of each job that the bridge itself watches.
        agents: The agents on whose nodes each job is or was.
    """

    def __init__(self, log: Log, file: Path) -> None:
        self._log = log
        self._file = file
        self.deduplication = Deduplication()
        self.watched: dict[str, int] = {}
        self.agents: dict[str, list[str]] = {}

    async def restore(self) -> None:
        """Read the file, then the log from its offsets to the end.

        Raises:
            LogUnavailableError: The log cannot be read now.
        """
        saved = _read(self._file) or SavedCursor()
        self.deduplication = Deduplication(saved.streams)
        self.watched = saved.watched
        self.agents = saved.agents
        start: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        for at in await self._partitions():
            end = await self._log.end(at)
            first = max(saved.offsets.get(str(at), 0), await _first(self._log, at))
            if first < end:
                start[at], ends[at] = first, end
        reader = self._log.reader(start)
        try:
            while ends:
                for record in await reader.poll(max_records=10_000):
                    self._replay(record)
                    if record.offset + 1 >= ends.get(record.at, record.offset + 2):
                        del ends[record.at]
        finally:
            await reader.close()

    async def save(self) -> None:
        """Write the file; call it only where every recorded message is on the log.

        Raises:
            LogUnavailableError: The ends of the log are not known now.
        """
        offsets = {str(at): await self._log.end(at) for at in await self._partitions()}
        saved = SavedCursor(
            streams=self.deduplication.streams, watched=self.watched, agents=self.agents, offsets=offsets
        )
        try:
            await asyncio.to_thread(_write, self._file, msgspec.msgpack.encode(saved))
        except OSError as error:
            logger.warning("cursor not saved; a restart reads more of the log", file=str(self._file), why=str(error))

    async def _partitions(self) -> Sequence[TopicPartition]:
        return [at for topic in (HEARTBEATS, LOSS) for at in await self._log.partitions(topic)]

    def _replay(self, record: Record) -> None:
        match record.headers.get(ORIGIN, "").rsplit("/", 2):
            case [stream, number, digest] if number.isascii() and number.isdecimal():
                if self.deduplication.check(stream, int(number), digest) is SequenceCheck.NEW:
                    self.deduplication.record(stream, int(number), digest)
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
    """The first offset that still exists: Kafka deletes old records by age, other logs delete none."""
    begin = getattr(log, "begin", None)
    return int(await begin(at)) if begin else 0


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, data)


def _read(file: Path) -> SavedCursor | None:
    try:
        return msgspec.msgpack.decode(file.read_bytes(), type=SavedCursor)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        logger.warning("cursor unreadable; reading the log from its beginning", file=str(file), why=str(error))
        return None
