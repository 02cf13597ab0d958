"""What a decider is: a fold over one ordered partition that gives what follows from each record.

``step`` is called in order, once for every record that counts (:func:`fold_and_decide`), and gives the events that follow
from it. Time is the record's. A decider keeps its state in one ``msgspec.Struct``, so that a snapshot and the tail of the
log equal a full replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, get_args

import msgspec

from steepest.events import cluster as c
from steepest.events.cluster import ClusterEvent
from steepest.events.received import DecisionId, Received
from steepest.policies.unread import Unread
from steepest.view.cluster_view import ClusterView

EVERY: frozenset[type] = frozenset(get_args(ClusterEvent))
"""All events of a pool. An event's class has no subclasses, so that a look-up finds it."""

SWITCHES: frozenset[type] = frozenset({c.PoolConfigured})
"""Events that may switch a policy on or off."""


class Decision(msgspec.Struct, frozen=True):
    """One event for the ``cluster`` topic, and the pool that it is about."""

    pool: str
    event: ClusterEvent


class ClusterDecider(Protocol):
    """Decides about a pool from the pool's own log, over the view that all deciders of the process share.

    Attributes:
        name: Part of the ids of all it decides; never changes.
        logic: Version of its behaviour; raised by every change that a flag does not guard.
        reads: The events that it must be asked about next: about any other it would say nothing, and remember nothing.
            Where this changes, it begins as :data:`EVERY`, because it is not part of the state; a decider follows one view.
            It changes only in ``step`` and ``reconsider``.
        state: All it remembers between records, an :class:`~steepest.policies.unread.AwaitsDecisions`.
    """

    name: str
    logic: int
    reads: frozenset[type]
    state: Any

    def reconsider(self, event: ClusterEvent) -> None:
        """Forget that this was decided: the log has another decision in its place, or only the log has it.

        What the decider still wants is decided about a later record.
        """

    def step(self, view: ClusterView, received: Received[ClusterEvent]) -> Sequence[ClusterEvent]:
        """What follows from ``received``, which ``view`` holds already. The view is read, never changed."""


class StreamDecider(Protocol):
    """Decides from one partition of another topic, and sees no view.

    Attributes:
        name: Part of the ids of all it decides; never changes.
        logic: Version of its behaviour.
        topic: The topic it reads.
        state: All it remembers between records.
    """

    name: str
    logic: int
    topic: str
    state: Any

    def restate(self) -> None:
        """State again, at later records, all that still holds: another logic may have decided otherwise, or nothing."""

    def step(self, received: Received[Any]) -> Sequence[Decision]:
        """What follows from ``received``."""


READ_BACK = (
    c.PlacementPlanned,
    c.MigrationPlanned,
    c.TransitionPlanned,
    c.RetryPlanned,
    c.JobRejected,
    c.JobEnded,
)
"""Events that their maker waits to read back, also where they do not count."""


class Readers:
    """The deciders of a pool in the order in which they are asked, and which of them read what.

    Few deciders read the most frequent events. Who reads an event is looked up again once a decider reads other events than
    before, which it does only while it is asked or reconsiders.
    """

    def __init__(self, deciders: Sequence[ClusterDecider]) -> None:
        self._deciders = deciders
        self._of: dict[type, list[tuple[int, ClusterDecider]]] = {}

    def ask(self, view: ClusterView, received: Received[ClusterEvent]) -> list[Sequence[ClusterEvent]]:
        """What each decider makes of a record that the view holds, in their order."""
        made: list[Sequence[ClusterEvent]] = [()] * len(self._deciders)
        kind = type(received.event)
        readers = self._of.get(kind)
        if readers is None:
            readers = self._of[kind] = [(n, one) for n, one in enumerate(self._deciders) if kind in one.reads]
        for number, decider in readers:
            reads = decider.reads
            made[number] = events = decider.step(view, received)
            if decider.reads is not reads:
                self._of = {}
            if events:
                unread = [Unread((received.offset, index), event) for index, event in enumerate(events)]
                decider.state.unread.extend(unread)
        return made

    def read_own(self, decision: DecisionId, epoch: str, received: Received[ClusterEvent]) -> None:
        """A decision is read back: its maker reconsiders what it overtakes."""
        if (decision.epoch, decision.partition) != (epoch, received.partition):
            return
        for decider in self._deciders:
            if decider.name == decision.decider:
                for event in decider.state.read_own(decision.position, received.event):
                    decider.reconsider(event)
                    self._of = {}


def fold_and_decide(
    view: ClusterView, deciders: Readers, received: Received[ClusterEvent]
) -> tuple[bool, list[Sequence[ClusterEvent]]]:
    """Fold a record once, and ask every decider what follows from it.

    Deciders are asked about what counts, and about what they wait for also where it does not, so that no decider
    waits without end. They are not asked about what was delivered before, nor about what they do not read. First, the
    decider in whose name the record was decided reconsiders what the record overtakes (:mod:`steepest.policies.unread`).

    Returns:
        Whether the record counts, and what each decider made of it, in the deciders' order.

    Raises:
        LogVersionError: As :meth:`ClusterView.fold`.
    """
    counts = view.fold(received)
    decision = view.decision
    if decision is not None and decision.topic == received.topic:
        deciders.read_own(decision, view.state.epoch, received)
    if not counts and (view.repeated or not isinstance(received.event, READ_BACK)):
        return counts, []
    return counts, deciders.ask(view, received)
