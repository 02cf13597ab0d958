"""A decider's decisions with the headers of their records: ids by cause, the chain of predecessors, nothing twice.

It owns the first of the three writers' rules, and is the only place that makes a decision's id: an id is ``(decider, epoch,
topic, partition, offset, index)`` of its cause, and names the id before it on the same output partition. After a restart
the same inputs make the same ids; those that a scan of the outputs has found in the log are left out. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from steepest.events.cluster import ClusterEvent
from steepest.events.received import ID, LOGIC, PREVIOUS, TRUNCATIONS, DecisionId, Received, spell_id
from steepest.log.base import TopicPartition
from steepest.trace_context import TRACEPARENT, trace_continued


class MintedDecision(msgspec.Struct, frozen=True, gc=False):
    """A decision, ready to be appended.

    Attributes:
        id: Its id; its text is in the headers.
        to: Its output partition.
        key: The key of its record.
        at_ms: The time of its cause: deciders read no clock.
        headers: Its id, the logic that made it, its predecessor, and its place in the trace of its cause.
    """

    id: DecisionId
    to: TopicPartition
    key: str
    event: ClusterEvent
    at_ms: int
    headers: Mapping[str, str]


class StreamInLog(msgspec.Struct):
    """The decisions of one stream that a scan has found in one output partition.

    Attributes:
        newest: The newest decision.
        versions: Who decided: the version of the behaviour, and how often the input partition had lost records by then.
        at_ms: The time of the newest decision, which is that of its cause; None where only a snapshot tells of it.
    """

    newest: DecisionId
    versions: dict[tuple[str, int], None]
    at_ms: int | None


Found = dict[tuple[str, TopicPartition], StreamInLog]
"""The scanned streams in the log, by stream and output partition."""


class DecisionStream:
    """The decisions of one decider about one input partition.

    Attributes:
        last_ids: The newest id made for each output partition; part of a snapshot.
        truncations: How often the input partition has lost its newest records; part of a snapshot.
        counts: How many decisions of each event type were made; the reader of the counts clears them.
        repeated: How many were left out because they are in the log; cleared likewise.
    """

    def __init__(
        self,
        name: str,
        logic: int,
        source: TopicPartition,
        last_ids: Mapping[str, str] | None = None,
        truncations: int = 0,
    ) -> None:
        self.name = name
        self.source = source
        self.last_ids: dict[str, str] = dict(last_ids or {})
        self.truncations = truncations
        self.counts: dict[str, int] = {}
        self.repeated = 0
        self._logic = str(logic)
        self._found: Found = {}
        self._epoch: str | None = None
        self._stream = ""
        self._names: dict[TopicPartition, str] = {}

    def mint(
        self, epoch: str, cause: Received[ClusterEvent], made: Iterable[tuple[TopicPartition, str, ClusterEvent]]
    ) -> Sequence[MintedDecision]:
        """Give what ``cause`` made its headers.

        Args:
            epoch: Of the log in which the cause is.
            cause: The record that was decided about.
            made: Output partition, key and event of each decision, in order.
        """
        if epoch != self._epoch:
            self._epoch, self._stream = epoch, decision_id(self.name, epoch, self.source, 0).stream
        minted: list[MintedDecision] = []
        trace = ""
        for index, (to, key, event) in enumerate(made):
            decision = decision_id(self.name, epoch, self.source, cause.offset, index)
            if self._found and self._is_in_the_log(decision, to):
                self.repeated += 1
                continue
            text = spell_id(self._stream, cause.offset, index)
            trace = trace or cause.trace(epoch)
            headers = {ID: text, LOGIC: self._logic, TRACEPARENT: trace_continued(trace, text)}
            place = self._names.get(to) or self._names.setdefault(to, str(to))
            if previous := self.last_ids.get(place):
                headers[PREVIOUS] = previous
            if self.truncations:
                headers[TRUNCATIONS] = str(self.truncations)
            self.last_ids[place] = text
            minted.append(MintedDecision(decision, to, key, event, cause.at_ms, headers))
            kind = type(event).__name__
            self.counts[kind] = self.counts.get(kind, 0) + 1
        return minted

    # --- what is in the log already ------------------------------------------------------------------------------------

    def fence(self, found: Found) -> None:
        """Leave out decisions that are already in the log."""
        self._found = {
            (stream, to): one
            for (stream, to), one in found.items()
            if (one.newest.decider, one.newest.topic, one.newest.partition)
            == (self.name, self.source.topic, self.source.partition)
        }

    def fence_ahead(self, position: int, outputs: Iterable[TopicPartition]) -> None:
        """Leave out as well what a snapshot says was decided about records from ``position`` on, which are read again.

        Another logic has kept it, whose state is of no use, or a start that had not come so far again. Retention may have
        removed what was decided then: views have read it, and take in nothing of the same ids.
        """
        for to in outputs:
            newest = DecisionId.parse(self.last_ids.get(str(to), ""))
            if newest is None or newest.offset < position:
                continue
            known = self._found.get((newest.stream, to))
            if known is None or known.newest.position < newest.position:
                versions = {("", self.truncations): None} | (known.versions if known else {})
                self._found[newest.stream, to] = StreamInLog(newest, versions, at_ms=None)

    @property
    def is_found(self) -> bool:
        """Whether some of it is in the log that has not been passed."""
        return bool(self._found)

    def newest_cause(self, epoch: str) -> tuple[int, int | None] | None:
        """Position and time of the newest record of an epoch that caused one of the found decisions."""
        causes = [(one.newest.offset, one.at_ms) for one in self._found_of(epoch)]
        return max(causes, key=lambda cause: (cause[0], cause[1] is not None), default=None)

    def restate_at(self, epoch: str, *, is_truncated: bool) -> int | None:
        """The position from which on the decider must state again what still holds; None where it need not.

        Up to there, what it makes now has the ids of other decisions, and is left out: another logic made them, or they are
        about records that were lost. Which these were is seen until a record in their place is the newest one that was
        decided about. So decisions from then on say how often that was, and a start that finds some from before as well
        states everything again: the one before it may have ended in the middle of that.

        What was decided about a partition that was deleted has ids of its own, and hides nothing of the one in its place.

        Args:
            epoch: Of the input partition as it is now.
            is_truncated: Whether it has lost the newest record that was decided about.
        """
        versions = {version: None for one in self._found_of(epoch) for version in one.versions}
        self.truncations = max([self.truncations, *(truncations for _, truncations in versions)]) + is_truncated
        newest = self.newest_cause(epoch)
        is_other = any(version != (self._logic, self.truncations) for version in versions)
        return newest[0] + 1 if newest is not None and is_other else None

    def _found_of(self, epoch: str) -> list[StreamInLog]:
        return [one for one in self._found.values() if one.newest.epoch == epoch]

    def passed(self, position: int, epoch: str) -> bool:
        """Whether all that was found in the log has a cause before ``position``; then the next scan may leave it out.

        What was found of a partition that was deleted since, and created again as ``epoch``, precedes nothing.
        """
        ours = decision_id(self.name, epoch, self.source, 0).stream
        for (stream, to), one in list(self._found.items()):
            if stream != ours:
                del self._found[stream, to]
            elif one.newest.offset < position:
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
        """Treat the next decisions as new. Their predecessor is the newest one in the log, also one of another version.

        A scan may find no more than a late copy of a decision that is older than the newest one of the snapshot.
        """
        del self._found[stream, to]
        known = DecisionId.parse(self.last_ids.get(str(to), ""))
        if known is None or known.stream != stream or known.position < newest.position:
            self.last_ids[str(to)] = str(newest)


def decision_id(decider: str, epoch: str, source: TopicPartition, offset: int, index: int = 0) -> DecisionId:
    """The id of what a decider, or a reader that writes a dead letter, makes of a record."""
    return DecisionId(decider, epoch, source.topic, source.partition, offset, index)
