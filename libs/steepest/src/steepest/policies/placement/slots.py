"""How many replicas with certain requests the nodes of a pool have room for, kept up to date as nodes change.

It owns these counts. It must never know who asks, nor whose plans take of the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

from steepest.events.common import LARGEST, Resources

ALIKE_KEPT = 100
"""Amounts that were free on nodes for which the counts are remembered."""


def fitting(requests: Resources, free: Resources) -> int:
    """How many replicas with these requests fit in what is free; ``LARGEST`` where they ask for nothing."""
    most = LARGEST
    if requests.cpu_m:
        most = free.cpu_m // requests.cpu_m
    elif free.cpu_m < 0:
        return 0
    if requests.memory_mib:
        most = min(most, free.memory_mib // requests.memory_mib)
    elif free.memory_mib < 0:
        return 0
    if requests.replicas:
        most = min(most, free.replicas // requests.replicas)
    if gpus_m := requests.all_gpus_m:
        most = min(most, free.all_gpus_m // gpus_m)
    if requests.extended:
        amounts = dict(free.extended)
        most = min(most, *(amounts.get(name, 0) // amount for name, amount in requests.extended))
    return max(most, 0)


class Slots:
    """Counts over nodes.

    Attributes:
        free: The free resources of each node that replicas may use.
    """

    def __init__(self, free: Mapping[str, Resources]) -> None:
        """Begin with these nodes."""
        self.free = dict(free)
        self._counts: dict[Resources, int] = {}
        self._holds: dict[Resources, dict[str, int]] = {}
        self._fitting: dict[Resources, dict[Resources, int]] = {}

    def of(self, requests: Resources) -> int:
        """How many replicas fit on all nodes together. Work: O(nodes) when it is asked first, then O(1)."""
        count = self._counts.get(requests)
        if count is None:
            each = {name: fitting(requests, free) for name, free in self.free.items()}
            self._fitting.clear()
            self._holds[requests] = {name: slots for name, slots in each.items() if slots}
            count = self._counts[requests] = sum(each.values())
        return count

    def holds(self, requests: Resources) -> Mapping[str, int]:
        """How many replicas fit on each node that has room for any, in no order that means anything."""
        self.of(requests)
        return self._holds[requests]

    def put(self, node: str, free: Resources | None) -> list[Resources]:
        """Another amount is free on a node; None: replicas may not come there. Work: O(requests that were asked for).

        Returns:
            The requests of which more replicas fit now.
        """
        before = self.free.pop(node, None)
        if free is not None:
            self.free[node] = free
        if before == free:
            return []
        more = []
        fits = {} if free is None else self._fitting_in(free)
        for requests, holds in self._holds.items():
            slots = fits.get(requests, 0)
            change = slots - holds.pop(node, 0)
            if slots:
                holds[node] = slots
            if change:
                self._counts[requests] += change
                if change > 0:
                    more.append(requests)
        return more

    def _fitting_in(self, free: Resources) -> Mapping[Resources, int]:
        """How many replicas with each of the requests fit; nodes that are alike have as much free."""
        found = self._fitting.get(free)
        if found is None:
            if len(self._fitting) >= ALIKE_KEPT:
                self._fitting.clear()
            found = self._fitting[free] = {requests: fitting(requests, free) for requests in self._holds}
        return found
