"""All checkers over one partition: what counts as delivered, where a log is cut, and errors that prove nothing.

It owns the feeding of checkers. It must never know what any of them checks.

A log that does not begin with its first record, or lacks some in between, proves nothing from there on: what was shown to
be broken before the cut is broken, and everything else is unknown. So it is where a log asks for a newer reader: what its
events mean from there on, this one does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from steepest.errors import InputError
from steepest.events.cluster import ClusterEvent, PoolConfigured
from steepest.events.received import ID, DecisionId, Received
from steepest.events.registry import FLAGS, READS
from steepest.invariants.verdict import Checker, Status, Verdict


class Audit:
    """Checkers at work on the log of one pool."""

    def __init__(self, checkers: Sequence[Callable[[], Checker]]) -> None:
        """Begin before the first record, with a new checker of each kind."""
        self._checkers = [make() for make in checkers]
        self._failed: dict[str, str] = {}
        self._streams: dict[str, tuple[int, int]] = {}
        self._next = 0
        self._cut = ""
        self._partition: tuple[str, int] | None = None

    def feed(self, received: Received[ClusterEvent]) -> None:
        """Take in the next record.

        Raises:
            InputError: It is of another partition than those before.
        """
        self._check_partition(received)
        self._move_to(received.offset)
        self._check_version(received)
        if self._cut or not self._is_first(received):
            return
        for checker in self._checkers:
            if checker.name not in self._failed:
                self._feed_one(checker, received)

    def skip(self, offset: int) -> None:
        """Pass over a record that is there and that nobody can read: every reader of the log passes over it."""
        self._move_to(offset)

    def verdicts(self) -> list[Verdict]:
        """What each checker says, in their order."""
        return [self._verdict(checker) for checker in self._checkers]

    def _check_partition(self, received: Received[ClusterEvent]) -> None:
        partition = (received.topic, received.partition)
        self._partition = self._partition or partition
        if partition != self._partition:
            ours, theirs = ("/".join(map(str, one)) for one in (self._partition, partition))
            raise InputError(f"a record of {theirs} among those of {ours}", hint="check each partition for itself")

    def _move_to(self, offset: int) -> None:
        if offset != self._next and not self._cut:
            self._cut = (
                f"the records {self._next} to {offset - 1} are missing"
                if offset > self._next
                else (f"record {offset} comes after record {self._next - 1}")
            )
        self._next = offset + 1

    def _check_version(self, received: Received[ClusterEvent]) -> None:
        event = received.event
        if self._cut or not isinstance(event, PoolConfigured):
            return
        if event.reads > READS or any(flag not in FLAGS for flag in event.flags):
            self._cut = f"record {received.offset} asks for a newer reader than this one"

    def _is_first(self, received: Received[ClusterEvent]) -> bool:
        """Whether a decision is delivered for the first time; what is no decision always is."""
        decision = DecisionId.parse(received.headers.get(ID, ""))
        if decision is None:
            return True
        if decision.position <= self._streams.get(decision.stream, (-1, -1)):
            return False
        self._streams[decision.stream] = decision.position
        return True

    def _feed_one(self, checker: Checker, received: Received[ClusterEvent]) -> None:
        try:
            checker.feed(received)
        except Exception as error:  # noqa: BLE001 - whatever it is, it proves nothing about the log
            self._failed[checker.name] = f"the checker failed at record {received.offset}: {error!r}"

    def _verdict(self, checker: Checker) -> Verdict:
        verdict = checker.verdict()
        why = self._failed.get(checker.name) or self._cut
        if verdict.status is Status.BROKEN or not (why or self._next == 0):
            return verdict
        return Verdict(checker=checker.name, status=Status.UNKNOWN, message=why or "there are no records")


def check_with(checkers: Sequence[Callable[[], Checker]], records: Iterable[Received[ClusterEvent]]) -> list[Verdict]:
    """What these checkers say of one partition's records, which are in order and begin with the first.

    Raises:
        InputError: The records are of more than one partition.
    """
    audit = Audit(checkers)
    for received in records:
        audit.feed(received)
    return audit.verdicts()
