"""Trainings that do each step together: the pace of all is that of the slowest, and none steps while one does not train.

It owns the common pace of a gang. It must never know why a training does not step, or which node it is on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class LockstepNode(Protocol):
    """A node as a gang sees it."""

    def retime(self) -> None:
        """Set its timer again, because a pace has changed."""


class LockstepMember(Protocol):
    """A training as its gang sees it.

    Attributes:
        own_pace: Steps per second that its node gives it; 0 while it does not train.
        own_share_m: CPU share at that pace, in millicores.
    """

    own_pace: float
    own_share_m: float

    @property
    def runs_on(self) -> LockstepNode:
        """Its node."""

    def set_pace(self, now_s: float, pace: float, share_m: float) -> None:
        """From now on it makes this many steps per second, with this CPU."""

    def lose_peer(self) -> None:
        """Another member has failed."""


class Lockstep:
    """One incarnation of a gang.

    Args:
        world_size: The number of members without which it makes no step.
    """

    def __init__(self, world_size: int) -> None:
        self._world_size = world_size
        self._members: list[LockstepMember] = []
        self._has_met = False

    @property
    def is_whole(self) -> bool:
        """Whether all members run."""
        return len(self._members) == self._world_size

    def join(self, member: LockstepMember) -> None:
        """A member was started."""
        self._members.append(member)

    def leave(self, member: LockstepMember, *, failed: bool) -> None:
        """A member has ended. If it failed, the others notice; those that still wait for it to begin do not."""
        self._members.remove(member)
        if failed and self._has_met:
            for other in tuple(self._members):
                other.lose_peer()

    def pace(self) -> float:
        """Steps per second of all members."""
        return min((member.own_pace for member in self._members), default=0.0) if self.is_whole else 0.0

    def couple(self, now_s: float) -> None:
        """Give all members the common pace; a member that waits for another one uses less CPU."""
        pace = self.pace()
        self._has_met = self._has_met or pace > 0.0
        nodes: dict[LockstepNode, None] = {}
        for member in self._members:
            share_m = member.own_share_m * pace / member.own_pace if member.own_pace else 0.0
            member.set_pace(now_s, pace, share_m)
            nodes[member.runs_on] = None
        for node in nodes:
            node.retime()


def couple_all(gangs: Sequence[Lockstep | None], now_s: float) -> None:
    """Couple each of these gangs once."""
    for gang in dict.fromkeys(gangs):
        if gang is not None:
            gang.couple(now_s)
