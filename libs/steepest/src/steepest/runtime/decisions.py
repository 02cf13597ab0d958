"""What deciders made, on its way to the log: ids by cause, the chain of predecessors, and nothing appended twice.

It owns the first of the three writers' rules: an id is ``(decider, epoch, topic, partition, offset, index)`` of its cause,
and names the id before it on the same output partition. After a restart the same inputs make the same ids; those that a
scan of the outputs has found in the log already are not appended again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from steepest.events.cluster import ClusterEvent
from steepest.events.received import ID, LOGIC, PREVIOUS, DecisionId, Received, spell_id
from steepest.log.base import Log, NewRecord, Record, TopicPartition
from steepest.runtime.decode import new_record
from steepest.runtime.monitoring.metric_defs import Metrics


class InTheLog(msgspec.Struct):
    """What a scan has found of one stream in one output partition.

    Attributes:
        newest: The newest decision.
        logics: The versions of the behaviour that decided.
    """

    newest: DecisionId
    logics: dict[str, None]


Found = dict[tuple[str, TopicPartition], InTheLog]
"""What stands in the log, by stream and output partition."""


class Stream:
    """The decisions of one decider about one input partition.

    Attributes:
        last_ids: The newest id made for each output partition; part of a snapshot.
    """

    def __init__(
        self,
        name: str,
        logic: int,
        source: TopicPartition,
        metrics: Metrics,
        last_ids: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.source = source
        self.last_ids: dict[str, str] = dict(last_ids or {})
        self._logic = str(logic)
        self._metrics = metrics
        self._uncounted: dict[str, int] = {}
        self._found: Found = {}
        self._epoch: str | None = None
        self._stream = ""
        self._places: dict[TopicPartition, str] = {}

    def fence(self, found: Found) -> None:
        """Do not append what is in the log already."""
        self._found = {
            (stream, to): one
            for (stream, to), one in found.items()
            if (one.newest.decider, one.newest.topic, one.newest.partition)
            == (self.name, self.source.topic, self.source.partition)
        }

    def others_decided_until(self) -> int | None:
        """The position up to which another logic has decided some of what was found; None where none has."""
        others = any(logic != self._logic for one in self._found.values() for logic in one.logics)
        return max(one.newest.offset for one in self._found.values()) + 1 if others else None

    def records(
        self, epoch: str, cause: Received[ClusterEvent], made: Iterable[tuple[TopicPartition, str, ClusterEvent]]
    ) -> list[NewRecord]:
        """The records to append for what ``cause`` made, in order."""
        if epoch != self._epoch:
            self._epoch, self._stream = epoch, self._id(epoch, 0, 0).stream
        out: list[NewRecord] = []
        for index, (to, key, event) in enumerate(made):
            if self._found and self._is_in_the_log(self._id(epoch, cause.offset, index), to):
                self._metrics.repeated.labels(self.name).inc()
                continue
            text = spell_id(self._stream, cause.offset, index)
            headers = {ID: text, LOGIC: self._logic}
            place = self._places.get(to) or self._places.setdefault(to, str(to))
            if previous := self.last_ids.get(place):
                headers[PREVIOUS] = previous
            self.last_ids[place] = text
            out.append(new_record(to, key, event, cause.at_ms, headers))
            kind = type(event).__name__
            self._uncounted[kind] = self._uncounted.get(kind, 0) + 1
        return out

    def count(self) -> None:
        """Tell the metrics what was made since the last call: one by one it would cost as much as making them."""
        for kind, made in self._uncounted.items():
            self._metrics.decisions.labels(self.name, kind).inc(made)
        self._uncounted.clear()

    def _id(self, epoch: str, offset: int, index: int) -> DecisionId:
        return DecisionId(self.name, epoch, self.source.topic, self.source.partition, offset, index)

    def passed(self, position: int) -> bool:
        """Whether all that was found in the log has a cause before ``position``; then it need not be looked for again."""
        for (stream, to), one in list(self._found.items()):
            if one.newest.offset < position:
                self._leave(stream, to, one.newest)
        return not self._found

    def _is_in_the_log(self, decision: DecisionId, to: TopicPartition) -> bool:
        found = self._found.get((decision.stream, to))
        if found is None:
            return False
        if decision.position <= found.newest.position:
            return True
        self._leave(decision.stream, to, found.newest)
        return False

    def _leave(self, stream: str, to: TopicPartition, newest: DecisionId) -> None:
        """What follows is new. Its predecessor is what stands in the log, also where another version decided that."""
        del self._found[stream, to]
        self.last_ids[str(to)] = str(newest)


def _ignore(_unread: int) -> None:
    """Whoever scans does not ask how far it is."""


async def scan(log: Log, start: Mapping[TopicPartition, int], tell: Callable[[int], None] = _ignore) -> Found:
    """What stands in the given partitions of every stream, from the given offsets to their present ends.

    Args:
        log: Where they are.
        start: Offsets; what retention has removed behind them is left out.
        tell: Called after each poll with the number of records that are still to be read.
    """
    start = {at: max(offset, await log.begin(at)) for at, offset in start.items()}
    ends = {at: await log.end(at) for at in start}
    left = {at: None for at, end in ends.items() if start[at] < end}
    found: Found = {}
    if not left:
        return found
    reader = log.reader({at: start[at] for at in left})
    unread = sum(ends[at] - start[at] for at in left)
    try:
        while left:
            records = await reader.poll(max_records=10_000)
            unread -= len(records)
            tell(max(0, unread))
            for record in records:
                note(found, record)
                if record.offset + 1 >= ends[record.at]:
                    left.pop(record.at, None)
    finally:
        await reader.close()
    return found


def epoch_in(found: Found, decider: str, source: TopicPartition) -> str:
    """Which log the newest decisions of a decider say that a partition is; empty where there are none."""
    mine = (decider, source.topic, source.partition)
    decided = [one.newest for one in found.values()]
    epochs = [one.epoch for one in decided if (one.decider, one.topic, one.partition) == mine]
    return epochs[-1] if epochs else ""


def note(found: Found, record: Record) -> None:
    """Remember a record's decision, if it is one."""
    text = record.headers.get(ID)
    decision = DecisionId.parse(text) if text else None
    if decision is None:
        return
    one = found.setdefault((decision.stream, record.at), InTheLog(decision, {}))
    one.logics[record.headers.get(LOGIC, "")] = None
    if decision.position > one.newest.position:
        one.newest = decision
