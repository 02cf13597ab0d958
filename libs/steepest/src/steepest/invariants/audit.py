"""Runs all checkers over one partition; handles repeated deliveries, incomplete logs and failing checkers.

It owns the feeding of checkers. It must never know what any of them checks.

A log that does not start with its first record, or lacks records, proves nothing from that cut on: an invariant that was
broken before the cut is broken, and all others are unknown. The same applies from the point where a log requires a newer
reader, because this one does not know the meaning of its events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from steepest.errors import InputError
from steepest.events.cluster import ClusterEvent, PoolConfigured
from steepest.events.received import ID, DecisionId, Received
from steepest.events.registry import FLAGS, READS
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import Checker, Status, Verdict

MakeChecker = Callable[[LogFolds], Checker]
"""A kind of checker: gives a new one, which looks at these folds."""

FOLDS = "folds"
"""Stands among the names of checkers for what they share."""


class Audit:
    """Feeds the log of one pool to checkers."""

    def __init__(self, checkers: Sequence[MakeChecker]) -> None:
        """Start before the first record, with a new checker of each kind."""
        folds = LogFolds()
        self._checkers = [make(folds) for make in checkers]
        self._feeds: list[tuple[str, Callable[[Received[ClusterEvent]], None]]] = [
            *((one.name, one.before) for one in self._checkers if type(one).before is not Checker.before),
            (FOLDS, folds.feed),
            *((one.name, one.feed) for one in self._checkers),
        ]
        self._failed: dict[str, str] = {}
        self._streams: dict[str, tuple[int, int]] = {}
        self._next = 0
        self._cut = ""
        self._partition: tuple[str, int] | None = None

    def feed(self, received: Received[ClusterEvent]) -> None:
        """Process the next record.

        Raises:
            InputError: It belongs to another partition than those before.
        """
        self._check_partition(received)
        self._move_to(received.offset)
        self._check_version(received)
        if self._cut or not self._is_first(received):
            return
        for name, feed in self._feeds:
            try:
                feed(received)
            except Exception as error:  # noqa: BLE001 - no error of a checker proves anything about the log
                self._fail(name, f"failed at record {received.offset}: {error!r}")
                if not self._feeds:
                    return

    def _fail(self, name: str, why: str) -> None:
        """From here on a checker proves nothing; without the folds that they share, none does."""
        self._failed[name] = f"the checker {why}"
        if name == FOLDS:
            self._failed = {one.name: f"the shared folds {why}" for one in self._checkers} | self._failed
        self._feeds = [feed for feed in self._feeds if feed[0] not in self._failed]

    def skip(self, offset: int) -> None:
        """Skip a record that exists and cannot be decoded: every reader of the log skips it."""
        self._move_to(offset)

    def verdicts(self) -> list[Verdict]:
        """The verdict of each checker, in their order."""
        return [self._verdict(checker) for checker in self._checkers]

    def breaches(self, checker: str) -> Sequence[str]:
        """All that a checker has found, in words; the message of its verdict has the first ones."""
        return next(one.breaches for one in self._checkers if one.name == checker)

    def _check_partition(self, received: Received[ClusterEvent]) -> None:
        partition = (received.topic, received.partition)
        self._partition = self._partition or partition
        if partition != self._partition:
            ours, theirs = ("/".join(map(str, one)) for one in (self._partition, partition))
            raise InputError(f"a record of {theirs} among those of {ours}", hint="check each partition separately")

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
            self._cut = f"record {received.offset} requires a newer reader"

    def _is_first(self, received: Received[ClusterEvent]) -> bool:
        """Whether a decision is delivered for the first time; always true for other events."""
        decision = DecisionId.parse(received.headers.get(ID, ""))
        if decision is None:
            return True
        if decision.position <= self._streams.get(decision.stream, (-1, -1)):
            return False
        self._streams[decision.stream] = decision.position
        return True

    def _verdict(self, checker: Checker) -> Verdict:
        verdict = checker.verdict()
        why = self._failed.get(checker.name) or self._cut
        if verdict.status is Status.BROKEN or not (why or self._next == 0):
            return verdict
        return Verdict(checker=checker.name, status=Status.UNKNOWN, message=why or "there are no records")


def check_with(checkers: Sequence[MakeChecker], records: Iterable[Received[ClusterEvent]]) -> list[Verdict]:
    """Run these checkers on one partition's records, which are in order from the first on, and return their verdicts.

    Raises:
        InputError: The records belong to more than one partition.
    """
    audit = Audit(checkers)
    for received in records:
        audit.feed(received)
    return audit.verdicts()
