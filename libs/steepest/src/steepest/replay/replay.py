"""The replay shell of a pool's engine: a recording is decided again, without effectors, and compared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from steepest.errors import InputError, UndecodableError
from steepest.events.cluster import LogOpened
from steepest.events.dead_letter import DeadLetter
from steepest.events.received import ID, LOGIC, DecisionId
from steepest.events.registry import TOPICS, encode
from steepest.log.base import Log, Record, TopicPartition
from steepest.policies.deciders import CLUSTER_DECIDERS, STREAM_DECIDERS
from steepest.replay.compare import Decided, Difference, Report, compare, readable
from steepest.runtime.dead_letters import DEAD_LETTER_BYTES
from steepest.runtime.decision_stream import DecisionStream, MintedDecision
from steepest.runtime.decode import received
from steepest.runtime.engine import PoolEngine
from steepest.view.cluster_view import ClusterView

BATCH = 10_000

ANY_POOL = TopicPartition("cluster")
"""Placeholder for the output partition of a decision about another topic: only ids and values are compared."""


class Replay:
    """One pass over a recording.

    Attributes:
        views: The view of each partition of ``cluster``, as the recording's last record left it.
    """

    def __init__(self, log: Log) -> None:
        self.views: dict[TopicPartition, ClusterView] = {}
        self._log = log
        self._then: dict[str, list[Decided]] = {}
        self._now: dict[str, list[Decided]] = {}
        self._altered: list[Difference] = []
        self._left_out: list[TopicPartition] = []
        self._refused: dict[tuple[str, int, int, bytes], None] = {}

    async def run(self) -> Report:
        """Decide everything again and compare.

        Raises:
            RecordingError: What is stored cannot be read.
            LogVersionError: The recording asks for a newer reader.
        """
        for at in await self._partitions("dead-letters"):
            await self._note_refused(at)
        for at in await self._partitions("cluster"):
            await self._pool(at)
        for kind in STREAM_DECIDERS.values():
            for at in await self._partitions(kind.topic):
                if await self._log.begin(at):
                    self._leave_out(at)
                else:
                    await self._stream(kind, at)
        return compare(self._then, self._now, self._altered, tuple(map(str, self._left_out)))

    # --- the three kinds of topic ----------------------------------------------------------------------------------------

    async def _note_refused(self, at: TopicPartition) -> None:
        """Note records that live readers could not read, so that the replay skips them too.

        That is the record with the letter's bytes: after a loss of the newest records, another one may have its offset.
        """
        async for record in self._records(at):
            letter = TOPICS["dead-letters"].decode(record.value)
            if isinstance(letter, DeadLetter):
                self._refused[letter.topic, letter.partition, letter.offset, letter.value] = None

    async def _pool(self, at: TopicPartition) -> None:
        if begin := await self._log.begin(at):
            raise InputError(
                f"the recording of {at} begins at {begin}: what was decided follows from what came before",
                code="offset-missing",
                hint="replay a recording that was begun before the first records were removed",
            )
        engine = PoolEngine([kind() for kind in CLUSTER_DECIDERS.values()], at, "")
        self.views[at] = engine.view
        async for record in self._records(at):
            event = self._event(record)
            if event is None:
                engine.skip(record.offset)
                continue
            self._remember(record)
            self._decided(engine.step(event), record)

    async def _stream(self, kind: Any, at: TopicPartition) -> None:
        decider = kind()
        stream = DecisionStream(decider.name, decider.logic, at)
        epoch = ""
        async for record in self._records(at):
            event = self._event(record)
            if event is None:
                continue
            if isinstance(event.event, LogOpened):
                epoch = epoch or event.event.epoch
                continue
            made = [(ANY_POOL, decision.pool, decision.event) for decision in decider.step(event)]
            self._decided(stream.mint(epoch, event, made), record)

    def _leave_out(self, at: TopicPartition) -> None:
        """Compare nothing that was decided about a partition whose first records are not recorded."""
        self._left_out.append(at)
        for stream, decided in list(self._then.items()):
            if (decided[0].id.topic, decided[0].id.partition) == (at.topic, at.partition):
                del self._then[stream]

    # --- records ---------------------------------------------------------------------------------------------------------

    async def _partitions(self, topic: str) -> Sequence[TopicPartition]:
        """The topic's partitions; none where the recording lacks the topic."""
        return [at for at in await self._log.partitions(topic) if await self._log.end(at)]

    async def _records(self, at: TopicPartition) -> AsyncIterator[Record]:
        end = await self._log.end(at)
        begin = await self._log.begin(at)
        if begin == end:
            return
        reader = self._log.reader({at: begin})
        try:
            while True:
                for record in await reader.poll(max_records=BATCH, timeout_s=0.1):
                    yield record
                    if record.offset + 1 >= end:
                        return
        finally:
            await reader.close()

    def _event(self, record: Record) -> Any:
        """The record's event; None where live readers passed it over, or would have to."""
        if (record.at.topic, record.at.partition, record.offset, record.value[:DEAD_LETTER_BYTES]) in self._refused:
            return None
        if record.damage:
            self._altered.append(
                Difference(
                    position=str(record),
                    offset=record.offset,
                    decision=record.headers.get(ID, ""),
                    why=record.damage,
                    recorded=readable(record.value),
                )
            )
        try:
            return received(_sound(record))
        except UndecodableError:
            return None

    def _remember(self, record: Record) -> None:
        text = record.headers.get(ID)
        decision = DecisionId.parse(text) if text else None
        if decision is None:
            return
        stream = self._then.setdefault(_stream_of(decision, record.key), [])
        if not stream or decision.position > stream[-1].id.position:
            stream.append(
                Decided(
                    id=decision,
                    value=record.value,
                    position=str(record),
                    offset=record.offset,
                    logic=record.headers.get(LOGIC, ""),
                )
            )

    def _decided(self, minted: Sequence[MintedDecision], cause: Record) -> None:
        for one in minted:
            self._now.setdefault(_stream_of(one.id, one.key), []).append(
                Decided(
                    id=one.id,
                    value=encode(one.event),
                    position=str(cause),
                    offset=cause.offset,
                    logic=one.headers[LOGIC],
                )
            )


def _sound(record: Record) -> Record:
    """A record that was changed by hand is folded unchanged, so that its consequences are seen."""
    return msgspec.structs.replace(record, damage="") if record.damage else record


def _stream_of(decision: DecisionId, pool: str) -> str:
    """The decisions that are recorded in order: of a decider of another topic, those of each pool by themselves."""
    return decision.stream if decision.topic == "cluster" else f"{decision.stream} {pool}"
