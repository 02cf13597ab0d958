"""What a decider is: a fold over one ordered partition that says what follows from each record.

``step`` is called once for every record of the partition, in order, and gives the events that follow from it. Time is
the record's. A decider keeps its state in one ``msgspec.Struct``, so that a snapshot and the tail of the log equal a
full replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from steepest.events.cluster import ClusterEvent, MigrationPlanned, PlacementPlanned
from steepest.events.received import Received
from steepest.view.cluster_view import ClusterView


class Decision(msgspec.Struct, frozen=True):
    """One event for the ``cluster`` topic, and the pool that it is about."""

    pool: str
    event: ClusterEvent


class ClusterDecider(Protocol):
    """Decides about a pool from the pool's own log, over the view that all deciders of the process share.

    Attributes:
        name: Part of the ids of all it decides; never changes.
        logic: Version of its behaviour; raised by every change that a flag does not guard.
        state: All it remembers between records.
    """

    name: str
    logic: int
    state: Any

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

    def step(self, received: Received[Any]) -> Sequence[Decision]:
        """What follows from ``received``."""


PLANS = (PlacementPlanned, MigrationPlanned)
"""Events that their maker must read back also where they are void."""


def fold_and_decide(
    view: ClusterView, deciders: Sequence[ClusterDecider], received: Received[ClusterEvent]
) -> tuple[bool, list[Sequence[ClusterEvent]]]:
    """Fold a record once, and let every decider say what follows from it.

    Deciders are asked about what counts, and about plans also where they are void, so that nobody waits for one for ever.
    What was delivered before is asked about no more.

    Returns:
        Whether the record counts, and what each decider made of it, in the deciders' order.

    Raises:
        LogVersionError, LogEpochError: As :meth:`ClusterView.fold`.
    """
    counts = view.fold(received)
    if counts or (isinstance(received.event, PLANS) and not view.repeated):
        return counts, [decider.step(view, received) for decider in deciders]
    return counts, []
