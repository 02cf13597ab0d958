"""Fair sharing of one node among jobs, as a fluid: who gets how much, and when each ends if nothing else comes.

Max-min fairness: all get the same part of the capacity, but none more than it can use. Seen from the jobs there is one
*level* at each moment; a job uses its demand or the level, whichever is less. While jobs only end, the level only rises, so
each job changes from the level to its own demand at most once, and two heaps hold who ends next: O(n log n) for n jobs.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import msgspec

EQUAL = 1e-9
"""Tolerance for sums of floats, relative to a second or a core."""


class Load(msgspec.Struct, frozen=True):
    """A job as fair sharing sees it.

    Attributes:
        left: Core-seconds that it still needs; None: unknown, it stays.
        demand: Cores that it can use.
    """

    left: float | None
    demand: float


class FairRun(msgspec.Struct, frozen=True):
    """What fair sharing comes to.

    Attributes:
        ends: Seconds until each job ends; infinite where it does not within the run.
        used: Core-seconds that each got until then.
    """

    ends: Sequence[float]
    used: Sequence[float]


def fair_level(capacity: float, demands: Sequence[float]) -> float:
    """The most cores that one job gets; infinite where each gets what it can use."""
    left, waiting = capacity, len(demands)
    for demand in sorted(demands):
        if demand * waiting > left + EQUAL:
            return left / waiting
        left -= demand
        waiting -= 1
    return math.inf


def run_fairly(capacity: float, loads: Sequence[Load], seconds: float = math.inf) -> FairRun:
    """Share ``capacity`` cores among jobs until all known ones have ended, or for some seconds.

    Args:
        capacity: Cores of the node, above 0.
        loads: The jobs; demands are above 0.
        seconds: The length of the run.
    """
    run = _Run(capacity, loads)
    while run.now < seconds and run.step(seconds):
        pass
    return FairRun(run.ends, run.all_used())


class _Run:
    """Fair sharing under way.

    ``served`` is what a job that always got the level would have got since the beginning. A job at the level ends when
    ``served`` reaches what it needs; one that gets its own demand ends at a time that is known from then on.
    """

    def __init__(self, capacity: float, loads: Sequence[Load]) -> None:
        self.now = 0.0
        self.ends = [math.inf] * len(loads)
        self._loads = loads
        self._free = capacity
        self._served = 0.0
        self._used = [0.0] * len(loads)
        self._since: dict[int, float] = {}
        self._at_level = dict.fromkeys(range(len(loads)))
        self._by_need = [(load.left, index) for index, load in enumerate(loads) if load.left is not None]
        self._by_end: list[tuple[float, int]] = []
        self._by_demand = sorted(range(len(loads)), key=lambda index: loads[index].demand, reverse=True)
        heapq.heapify(self._by_need)
        self._satisfy()

    def step(self, until: float) -> bool:
        """Go on to the next end, or to ``until``; False: nothing ends any more."""
        while self._by_need and self._by_need[0][1] not in self._at_level:
            heapq.heappop(self._by_need)
        level = self._free / len(self._at_level) if self._at_level else 0.0
        by_need = self.now + (self._by_need[0][0] - self._served) / level if self._by_need and level > 0 else math.inf
        by_end = self._by_end[0][0] if self._by_end else math.inf
        at = max(self.now, min(by_need, by_end, until))
        if math.isinf(at):
            return False
        self._served += level * (at - self.now)
        if by_need <= at:  # also where the rest is less than a float of this size can tell
            self._served = max(self._served, self._by_need[0][0])
        self.now = at
        while self._by_end and self._by_end[0][0] <= at + EQUAL:
            self._end(heapq.heappop(self._by_end)[1])
        while self._by_need and self._by_need[0][0] <= self._served + EQUAL:
            index = heapq.heappop(self._by_need)[1]
            if index in self._at_level:
                del self._at_level[index]
                self._used[index] = self._loads[index].left or 0.0
                self.ends[index] = at
        self._satisfy()
        return True

    def all_used(self) -> list[float]:
        """What each has got so far."""
        for index in self._at_level:
            self._used[index] = self._served
        for index, since in self._since.items():
            self._used[index] += self._loads[index].demand * (self.now - since)
        self._since.clear()
        return self._used

    def _end(self, index: int) -> None:
        """A job that got its own demand has ended."""
        del self._since[index]
        self._used[index] = self._loads[index].left or 0.0
        self._free += self._loads[index].demand
        self.ends[index] = self.now

    def _satisfy(self) -> None:
        """Let all jobs have their own demand that can use no more than the level."""
        while self._by_demand:
            index = self._by_demand[-1]
            load = self._loads[index]
            if index in self._at_level:
                if load.demand * len(self._at_level) > self._free + EQUAL:
                    return
                del self._at_level[index]
                self._free -= load.demand
                self._used[index] = self._served
                self._since[index] = self.now
                if load.left is not None:
                    heapq.heappush(self._by_end, (self.now + (load.left - self._served) / load.demand, index))
            self._by_demand.pop()
