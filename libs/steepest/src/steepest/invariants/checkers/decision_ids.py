"""Checker: no decision is missing."""

from __future__ import annotations

from steepest.events.cluster import ClusterEvent
from steepest.events.received import ID, LOGIC, PREVIOUS, DecisionId, Received
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import Checker


class DecisionIds(Checker):
    """Every decision names the one before it in its stream, and that one is in the log.

    A stream is what one decider made of one partition. Its ids rise, and each record's ``prev`` is the id of the
    record before it; the first one has none. Decisions that are delivered again do not count. A record that names
    another one than its neighbour shows that a decision between them was never written, or written out of order. Where
    another logic continues, it may name a decision of its own whose id the other one took: that shows nothing. And once
    several logics have decided at the same time, one that comes back begins with what is in the log, while one that never
    left goes on with its own: then a decision is missing only if it is in the log nowhere before.
    """

    name = "decision-ids"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._last: dict[str, tuple[str, int, str]] = {}
        self._mixed: dict[str, None] = {}
        self._decisions = 0

    def feed(self, received: Received[ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        text = received.headers.get(ID, "")
        decision = DecisionId.parse(text)
        if decision is None:
            return
        self._decisions += 1
        logic = received.headers.get(LOGIC, "")
        last, at, before = self._last.get(decision.stream, ("", received.offset, logic))
        previous = received.headers.get(PREVIOUS, "")
        if logic != before:
            self._mixed[decision.stream] = None
        elif previous != last and not (decision.stream in self._mixed and _is_before(previous, last)):
            message = (
                f"{text} names {previous or 'none'} as its predecessor, but the log has {last or 'none'} before it"
            )
            self.breach(message, at, received.offset)
        self._last[decision.stream] = (text, received.offset, logic)

    def summary(self) -> str:
        """The number of decisions and of streams."""
        return f"decisions: {self._decisions}, streams: {len(self._last)}"


def _is_before(named: str, last: str) -> bool:
    """Whether a decision is not behind the last one of its stream."""
    one, two = DecisionId.parse(named), DecisionId.parse(last)
    return one is not None and two is not None and one.position <= two.position
