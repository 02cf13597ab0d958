"""Consumer groups without a broker: which replica of a service works on which partitions, with Kafka's eager rebalances.

It owns the coordinator's side: sessions that end, rebalances that wait until shares are given back, generations that are
refused. The members' side is what :mod:`steepest.log.kafka.consumer_group` does with a real coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.faults.doors import Doors

from steepest.log.base import TopicPartition
from steepest.log.kafka.consumer_group import HAND_OVER_MS, SESSION_MS

LOOK_S = 0.5
"""How often the coordinator looks for members that are gone."""


class Group:
    """The replicas of one service, and the partitions that they share."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        self._partitions = partitions
        self._members: dict[Member, None] = {}
        self._changed = False
        self._coordinator: asyncio.Task[None] | None = None

    def join(self, member: Member) -> None:
        """A member is there, or there again."""
        self._members[member] = None
        self._changed = True
        if self._coordinator is None:
            self._coordinator = asyncio.ensure_future(self._coordinate())

    def leave(self, member: Member) -> None:
        """A member needs no share any more."""
        if member in self._members:
            del self._members[member]
            self._changed = True

    def has(self, member: Member) -> bool:
        """Whether a member belongs to the present generation."""
        return member in self._members

    async def close(self) -> None:
        """The world is over."""
        if self._coordinator is not None:
            self._coordinator.cancel()
            await asyncio.gather(self._coordinator, return_exceptions=True)

    async def _coordinate(self) -> None:
        while True:
            self._drop_the_silent()
            if self._changed:
                self._changed = False
                await self._rebalance()
            await asyncio.sleep(LOOK_S)

    def _drop_the_silent(self) -> None:
        for member in [one for one in self._members if one.is_silent()]:
            self.leave(member)

    async def _rebalance(self) -> None:
        """Take all shares back, and deal the partitions again to the members that gave theirs back."""
        for member in self._members:
            member.must_give_back()
        until_s = asyncio.get_running_loop().time() + HAND_OVER_MS / 1000
        while waited_for := [one for one in self._members if not one.idle.is_set()]:
            if asyncio.get_running_loop().time() > until_s:
                for member in waited_for:
                    self.leave(member)
            self._drop_the_silent()
            await asyncio.sleep(LOOK_S)
        members = list(self._members)
        for place, member in enumerate(members):
            member.get(self._partitions[place :: len(members)])


class Member:
    """One life of a process in a group; the :class:`~steepest.runtime.sharing.assignment.Assignment` of its loops."""

    def __init__(self, group: Group, doors: Doors) -> None:
        self.revoked = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self._group = group
        self._doors = doors
        self._partitions: Sequence[TopicPartition] = ()
        self._assigned = asyncio.Event()
        self._heard_s = asyncio.get_running_loop().time()
        self._heart: asyncio.Task[None] | None = None

    async def take(self) -> Sequence[TopicPartition]:
        """See ``Assignment.take``."""
        if self._heart is None:
            self._heart = asyncio.ensure_future(self._beat())
            self._doors.keep(self._heart)
            self._group.join(self)
        await self._assigned.wait()
        await self._doors.life.go()
        self.idle.clear()
        return self._partitions

    async def is_held(self, at: TopicPartition) -> bool:
        """See ``Assignment.is_held``: the coordinator answers."""
        await self._doors.life.go()
        await self._doors.broker.answers()
        return self._group.has(self) and not self.revoked.is_set() and at in self._partitions

    def give_back(self) -> None:
        """See ``Assignment.give_back``."""
        self.idle.set()

    async def close(self) -> None:
        """See ``Assignment.close``."""
        if self._heart is not None:
            self._heart.cancel()
        self.give_back()
        self._group.leave(self)

    # --- what the coordinator does -----------------------------------------------------------------------------------

    def is_silent(self) -> bool:
        """Whether its session has ended."""
        return asyncio.get_running_loop().time() - self._heard_s > SESSION_MS / 1000

    def must_give_back(self) -> None:
        """A rebalance begins."""
        self._assigned.clear()
        self.revoked.set()

    def get(self, partitions: Sequence[TopicPartition]) -> None:
        """A rebalance is over."""
        self._partitions = partitions
        self.revoked = asyncio.Event()
        self._assigned.set()

    async def _beat(self) -> None:
        """Tell the coordinator that it lives; a member that was dropped gives its share back, and joins again."""
        while True:
            await self._doors.life.go()
            await self._doors.broker.answers()
            self._heard_s = asyncio.get_running_loop().time()
            if not self._group.has(self):
                self.must_give_back()
                await self.idle.wait()
                self._heard_s = asyncio.get_running_loop().time()
                self._group.join(self)
            await asyncio.sleep(1.0)
