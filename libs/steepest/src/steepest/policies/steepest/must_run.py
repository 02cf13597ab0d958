"""What must run now, so that every job can still end when it is due: work as late as possible.

Slack stealing (Lehoczky & Ramos-Thuel, RTSS 1992) with jobs that can use only so many cores each: all work is put as late as
possible before its due time, from the last due time backwards; what does not fit later must run now, and the rest of the
capacity is free for the work that is worth most.

Going backwards, a job is *released* at its due time, and the question is who runs in which core-second. As much as possible
must fit, so the jobs whose remaining work takes longest run first, at their full demand, and those at the border share
(Muntz & Coffman's level algorithm). In terms of x = remaining work / demand, the seconds that a job needs alone:

* a job that runs at full demand loses one second of x a second, so x minus the time to go is constant: :attr:`_Levels.full`;
* those at the border share what is left, and lose x equally: :attr:`_Levels.border`;
* a job with less x waits: :attr:`_Levels.waiting`.

When a job meets the border, it stays with it for good, and a released job can push another one from *full* to *waiting* at
most once before that: O(n log n) for n jobs.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import msgspec

EQUAL = 1e-9
"""Tolerance for sums of floats, relative to a second, a core, or the longest time that is computed with."""


class Promise(msgspec.Struct, frozen=True):
    """Work that is due.

    Attributes:
        left: Core-seconds, above 0.
        demand: Cores that it can use, above 0.
        due_s: Seconds from now; may be past.
    """

    left: float
    demand: float
    due_s: float


class MustRun(msgspec.Struct, frozen=True):
    """What cannot wait.

    Attributes:
        now: Core-seconds of each job that must run within the slot.
        late: Core-seconds that cannot be done in time at all.
        seconds: How long each would have to run within the slot, also where that is longer.
        longer: The same for the longer slot that was asked for; empty: none was.
    """

    now: Sequence[float]
    late: float
    seconds: Sequence[float] = ()
    longer: Sequence[float] = ()


def must_run(promises: Sequence[Promise], capacity: float, slot_s: float, longer_s: float = 0.0) -> MustRun:
    """Find what does not fit after the slot.

    Args:
        promises: The jobs.
        capacity: Cores for them, above 0.
        slot_s: How long the coming slot is; work that is due within it is due at its end.
        longer_s: A longer slot, of which ``longer`` is wanted too; the way back from the last due time passes its end.
    """
    levels = _Levels(promises, capacity, slot_s)
    times = [(max(promise.due_s, slot_s), index) for index, promise in enumerate(promises)]
    times.sort(key=lambda one: (-one[0], -one[1]))
    longer = list[float]()
    for place, (at_s, index) in enumerate(times):
        if at_s < longer_s and not longer:
            longer = levels.at(longer_s, [one for _, one in times[place:]])
        levels.go_back(at_s)
        levels.release(index)
    if longer_s > slot_s and not longer:
        longer = levels.at(longer_s, ())
    levels.go_back(slot_s)
    now, late, alone = [0.0] * len(promises), 0.0, [0.0] * len(promises)
    for index, seconds in levels.left():
        promise, alone[index] = promises[index], seconds
        demand = min(promise.demand, capacity)
        can_run, wanted = demand * slot_s, seconds * demand
        now[index] = min(wanted, can_run)
        late += max(0.0, wanted - can_run)
    return MustRun(now, late + max(0.0, sum(now) - capacity * slot_s), alone, longer)


class _Merged(msgspec.Struct):
    """Jobs with the same x, from when they met on."""

    demand: float
    members: list[int]


class _Levels:
    """The remaining work, going backwards in time.

    Attributes:
        full: Heap of those at full demand: (x − time, number).
        border: Those who share what the full ones leave, and their x.
        waiting: Heap of the others: (−x, number).
    """

    def __init__(self, promises: Sequence[Promise], capacity: float, slot_s: float) -> None:
        self._promises = promises
        self._capacity = capacity
        self._time = max((promise.due_s for promise in promises), default=slot_s)
        alone_s = (promise.left / min(promise.demand, capacity) for promise in promises)
        self._equal_s = EQUAL * max(1.0, self._time, *alone_s)
        self._groups: dict[int, _Merged] = {}
        self.full: list[tuple[float, int]] = []
        self._full_demand = 0.0
        self.border: tuple[float, int] | None = None
        self.waiting: list[tuple[float, int]] = []

    def release(self, index: int) -> None:
        """A job is due here."""
        promise = self._promises[index]
        demand = min(promise.demand, self._capacity)
        self._groups[index] = _Merged(demand, [index])
        self._place(promise.left / demand, index)
        self._settle()

    def left(self) -> list[tuple[int, float]]:
        """Each job, and the seconds that it needs alone for what is left of it."""
        found = list[tuple[int, float]]()
        groups = [(x + self._time, number) for x, number in self.full]
        groups += [(-x, number) for x, number in self.waiting]
        groups += [self.border] if self.border is not None else []
        for x, number in groups:
            found += [(member, x) for member in self._groups[number].members]
        return found

    def at(self, at_s: float, released_here: Sequence[int]) -> list[float]:
        """The seconds of each job that are left at a time; those that are due before it are due here."""
        self.go_back(at_s)
        found = [0.0] * len(self._promises)
        for index, seconds in self.left():
            found[index] = seconds
        for index in released_here:
            found[index] = self._promises[index].left / min(self._promises[index].demand, self._capacity)
        return found

    def go_back(self, to_s: float) -> None:
        """Let the work before ``to_s`` be done, from there on."""
        while self._time > to_s and (self.full or self.border):
            span = self._time - to_s
            falls = self._fall()
            if self.full:
                x = self.full[0][0] + self._time
                span = min(span, x)
                if self.border is not None:
                    span = min(span, (x - self.border[0]) / (1.0 - falls))
            if self.border is not None and falls > 0.0:
                below = -self.waiting[0][0] if self.waiting else 0.0
                span = min(span, (self.border[0] - below) / falls)
            self._time -= max(span, 0.0)
            if self.border is not None:
                self.border = (self.border[0] - falls * max(span, 0.0), self.border[1])
            self._meet()
            self._settle()
        self._time = min(self._time, to_s)

    def _fall(self) -> float:
        """Seconds of x that those at the border lose a second; below 1."""
        if self.border is None:
            return 0.0
        return max(0.0, self._capacity - self._full_demand) / self._groups[self.border[1]].demand

    def _place(self, x: float, number: int) -> None:
        """Put a group where its x belongs."""
        if self.border is not None and x <= self.border[0]:
            heapq.heappush(self.waiting, (-x, number))
        else:
            heapq.heappush(self.full, (x - self._time, number))
            self._full_demand += self._groups[number].demand

    def _meet(self) -> None:
        """Join those who have come to the border, and drop what is done."""
        while self.full and self.full[0][0] + self._time <= self._equal_s:
            self._full_demand -= self._groups[heapq.heappop(self.full)[1]].demand
        if self.border is None:
            return
        x, number = self.border
        while self.full and self.full[0][0] + self._time <= x + self._equal_s:
            other = heapq.heappop(self.full)[1]
            self._full_demand -= self._groups[other].demand
            number = self._join(number, other)
        while self.waiting and -self.waiting[0][0] >= x - self._equal_s:
            number = self._join(number, heapq.heappop(self.waiting)[1])
        self.border = None if x <= self._equal_s else (x, number)

    def _settle(self) -> None:
        """Let the border be where the capacity ends: those above it run fully, those below it not at all."""
        while True:
            if self._full_demand > self._capacity + EQUAL:  # the least of the full ones no longer runs fully
                z, number = heapq.heappop(self.full)
                self._full_demand -= self._groups[number].demand
                if self.border is not None:
                    heapq.heappush(self.waiting, (-self.border[0], self.border[1]))
                self.border = (z + self._time, number)
            elif self.border is None:
                if not self.waiting:
                    return
                x, number = heapq.heappop(self.waiting)
                self.border = (-x, number)
            elif self._full_demand + self._groups[self.border[1]].demand <= self._capacity + EQUAL:
                x, number = self.border
                self.border = None
                heapq.heappush(self.full, (x - self._time, number))
                self._full_demand += self._groups[number].demand
            else:
                return

    def _join(self, one: int, other: int) -> int:
        """Make two groups one; the smaller one goes into the larger one."""
        if len(self._groups[one].members) < len(self._groups[other].members):
            one, other = other, one
        group, gone = self._groups[one], self._groups.pop(other)
        group.demand += gone.demand
        group.members += gone.members
        return one
