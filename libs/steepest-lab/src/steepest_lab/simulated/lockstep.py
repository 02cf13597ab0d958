"""Trainings that do each step together: the pace of all is that of the slowest, and none steps while one does not train.

After computing, they exchange what they have learned over the links of their nodes. Where members may leave, the others go
on without them, and divide their part among themselves. It owns the common pace of a gang, and how long it was in parts.
It must never know why a training does not step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from steepest_lab.simulated.network import Network, Place, loads_of


class LockstepNode(Protocol):
    """A node as a gang sees it."""

    def settle(self) -> None:
        """Take in that the pace of a gang on it has changed."""


class LockstepMember(Protocol):
    """A training as its gang sees it.

    Attributes:
        own_pace: Steps per second that its node gives it; 0 while it does not train.
        own_share_m: CPU share at that pace, in millicores.
    """

    own_pace: float
    own_share_m: float

    @property
    def place(self) -> Place:
        """Where it is, and what it does."""

    @property
    def may_leave(self) -> bool:
        """Whether the others continue without it."""

    @property
    def exchanged_mib(self) -> float:
        """Exchange of each worker of its gang at a step, in MiB."""

    @property
    def runs_on(self) -> LockstepNode:
        """Its node."""

    def set_pace(self, now_s: float, pace: float, share_m: float) -> None:
        """From now on it makes this many steps per second, with this CPU."""

    def lose_peer(self) -> None:
        """Another member has failed."""


class Gangs:
    """All gangs of some nodes.

    Attributes:
        network: The links that they exchange over.
        longest_partial_s: For how long a gang was in parts at most, of those that became whole.
        partial: The gangs of which some members run and others do not yet, with the time of the first one's start.
    """

    def __init__(self, network: Network | None = None) -> None:
        self.network = network or Network({})
        self.longest_partial_s = 0.0
        self.partial: dict[Lockstep, float] = {}

    def start(self, gang: Lockstep, now_s: float) -> None:
        """A member was started."""
        self.partial.setdefault(gang, now_s)
        if gang.is_whole:
            self.became_whole(gang, now_s)

    def became_whole(self, gang: Lockstep, now_s: float) -> None:
        """All members run that it needs."""
        if (since_s := self.partial.pop(gang, None)) is not None:
            self.longest_partial_s = max(self.longest_partial_s, now_s - since_s)


class Lockstep:
    """One incarnation of a gang.

    Args:
        world_size: The number of members without which it makes no step.
        gangs: All gangs of the same nodes.
    """

    def __init__(self, world_size: int, gangs: Gangs | None = None) -> None:
        self._world_size = world_size
        self._members: list[LockstepMember] = []
        self._has_met = False
        self._left = 0
        self._gangs = gangs or Gangs()

    @property
    def is_whole(self) -> bool:
        """Whether all members run."""
        return len(self._members) == self._world_size

    def join(self, member: LockstepMember, now_s: float) -> None:
        """A member was started."""
        self._members.append(member)
        self._gangs.start(self, now_s)
        if self.is_whole:
            self._load_links(now_s)

    def leave(self, member: LockstepMember, now_s: float, *, failed: bool) -> None:
        """A member has ended. If it failed, the others notice; those that still wait for it to begin do not.

        One that may leave is not missed.
        """
        if self.is_whole:
            couple_all(self._gangs.network.leave(self), now_s)
        self._members.remove(member)
        if not self._members:
            self._gangs.partial.pop(self, None)
        if member.may_leave:
            self._go_on_without_one(now_s)
        elif failed and self._has_met:
            for other in tuple(self._members):
                other.lose_peer()

    def _go_on_without_one(self, now_s: float) -> None:
        self._world_size -= 1
        self._left += 1
        if self._members and self.is_whole:
            self._gangs.became_whole(self, now_s)
            self._load_links(now_s)
            self.couple(now_s)

    def _load_links(self, now_s: float) -> None:
        exchanged_mib = self._members[0].exchanged_mib
        if exchanged_mib:
            loads = loads_of([one.place for one in self._members], exchanged_mib)
            couple_all(self._gangs.network.join(self, loads), now_s)

    def pace(self) -> float:
        """Steps per second of all members: the slowest one's computing, and then the exchange."""
        pace = min((member.own_pace for member in self._members), default=0.0) if self.is_whole else 0.0
        if self._left:
            workers = sum(not member.place.serves for member in self._members)
            pace *= workers / (workers + self._left)  # those that are left do the part of the others too
        return 1.0 / (1.0 / pace + self._gangs.network.step_s(self)) if pace > 0.0 else 0.0

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
            node.settle()


def couple_all(gangs: Sequence[Any], now_s: float) -> None:
    """Couple each of these gangs once; None are no gangs."""
    for gang in dict.fromkeys(gangs):
        if gang is not None:
            gang.couple(now_s)
