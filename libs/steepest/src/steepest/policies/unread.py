"""What a decider has decided and not read back yet, and what must be reconsidered because the log has something else.

Two processes may decide for one stream of decisions at the same time, and of different logic while a decider is upgraded.
The log's order settles whose decisions count: whatever stands in the log first takes its id, and an id that is not beyond
the stream's newest never counts. So a decider reads its own stream: once a decision stands there, each of its own that is
not beyond it either stands there as well, or never will. What never will, and what stands there without the decider having
decided it, is to be reconsidered, or the decider would wait for it, or rely on it, for ever.

All of it is a function of the log alone, and the same in every replay. Where one logic decides, nothing is reconsidered.
"""

from __future__ import annotations

import msgspec

from steepest.events.cluster import ClusterEvent

Position = tuple[int, int]
"""Where in its stream a decision stands: the offset of its cause, and its index among what that cause made."""


class Unread(msgspec.Struct, frozen=True):
    """A decision on its way to the log."""

    position: Position
    event: ClusterEvent


class AwaitsDecisions(msgspec.Struct):
    """The part that the states of all deciders of a pool have in common.

    Attributes:
        unread: What the decider has decided and not read back, in the order of the positions.
    """

    unread: list[Unread] = []

    def read_own(self, position: Position, event: ClusterEvent) -> list[ClusterEvent]:
        """A decision of the decider's stream stands in the log. Gives the decisions to reconsider, oldest first."""
        unread = self.unread
        overtaken: list[ClusterEvent] = []
        while unread and unread[0].position <= position:
            mine = unread.pop(0)
            if mine.position == position and mine.event == event:
                return overtaken
            overtaken.append(mine.event)
        return [*overtaken, event]
