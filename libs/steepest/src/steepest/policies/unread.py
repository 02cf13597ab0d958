"""Tracks a decider's decisions that it has not read back yet, and finds those that it must reconsider.

Two processes may decide for the same stream of decisions at the same time, with different logic while a decider is upgraded.
The log's order settles which decisions count: the first decision in the log takes its id, and an id that is not beyond the
stream's newest never counts. So a decider reads its own stream: when a decision is there, each of its own decisions up
to that position either is there as well, or never will be. Those that never will be, and those in the log that the
decider did not make, must be reconsidered; otherwise the decider would wait for them, or rely on them, without end.

All of this is a function of the log alone, and the same in every replay. If only one logic decides, nothing is reconsidered.
"""

from __future__ import annotations

import msgspec

from steepest.events.cluster import ClusterEvent

Position = tuple[int, int]
"""A decision's position in its stream: the offset of its cause, and its index among the decisions from that cause."""


class Unread(msgspec.Struct, frozen=True):
    """A decision that was not read back yet."""

    position: Position
    event: ClusterEvent


class AwaitsDecisions(msgspec.Struct):
    """The base of the states of all deciders of a pool.

    Attributes:
        unread: The decider's decisions that it has not read back, in the order of their positions.
    """

    unread: list[Unread] = []

    def awaits(self, field: str, name: str) -> bool:
        """Whether a decision is not read back that is about this ``job`` or this ``node``. Work: O(unread decisions)."""
        return any(getattr(one.event, field, None) == name for one in self.unread)

    def read_own(self, position: Position, event: ClusterEvent) -> list[ClusterEvent]:
        """Process a decision of the decider's stream in the log; return the decisions to reconsider, oldest first."""
        unread = self.unread
        overtaken: list[ClusterEvent] = []
        while unread and unread[0].position <= position:
            mine = unread.pop(0)
            if mine.position == position and mine.event == event:
                return overtaken
            overtaken.append(mine.event)
        return [*overtaken, event]
