"""Free units on each node, and the placement rules that take them.

It owns the placement of shares on nodes. It must never know which job should have one.
"""

from __future__ import annotations

from collections.abc import Sequence

from steepest_lab.sim.allocation.job import Place


class FreeUnits:
    """Free units of each node, in the order of the cluster's description."""

    def __init__(self, capacity: Sequence[int]) -> None:
        self.capacity = tuple(capacity)
        self.total = sum(capacity)
        self.free = list(capacity)

    def take(self, place: Place) -> None:
        """Take units that :meth:`fits` found free."""
        for node, units in place:
            self.free[node] -= units

    def give_back(self, place: Place) -> None:
        """Free a share."""
        for node, units in place:
            self.free[node] += units

    def fits(self, place: Place) -> bool:
        """Whether exactly these units are free."""
        return all(units <= self.free[node] for node, units in place)

    def empty(self) -> None:
        """Free everything."""
        self.free[:] = self.capacity

    def most_free(self, units: int, piece: int = 1) -> Place | None:
        """Whole pieces from the node with most free units (the first of equals), then from the next."""
        place: list[tuple[int, int]] = []
        for node in sorted(range(len(self.free)), key=lambda node: -self.free[node]):
            here = min(self.free[node] // piece * piece, units)
            if not here:
                break
            place.append((node, here))
            units -= here
            if not units:
                return tuple(place)
        return None

    def consolidated(self, units: int, piece: int = 1) -> Place | None:
        """All units on the first node where they fit; if there is none, on as few nodes as possible."""
        for node, free in enumerate(self.free):
            if free >= units:
                return ((node, units),)
        return self.most_free(units, piece)

    def yarn(self, units: int) -> Place | None:
        """All units on the first node where they fit, or on the first idle nodes and the first other node for the rest.

        Only a job larger than the largest node is divided.
        """
        free, size = self.free, max(self.capacity)
        if not size:
            return None
        place: list[tuple[int, int]] = []
        if units > size:
            idle = [node for node, has in enumerate(free) if has == self.capacity[node] == size][: units // size]
            if len(idle) < units // size:
                return None
            place = [(node, size) for node in idle]
            units %= size
        if units:
            taken = {node for node, _ in place}
            node = next((node for node, has in enumerate(free) if has >= units and node not in taken), None)
            if node is None:
                return None
            place.append((node, units))
        return tuple(place)


def counting_suffices(capacity: Sequence[int], asked: Sequence[int]) -> bool:
    """Whether ``yarn``, packing an empty cluster, takes a job exactly if enough units are free in all.

    It does where all nodes are of one size, and that and every job's share are powers of two. For a node is opened for a
    job only when all nodes opened before have less free than the job takes, and later, smaller jobs fill those first; so
    no two opened nodes have a common bit in their numbers of free units. A share that is a single bit then fits on one of
    them if it is at most their sum, and what they have together is less than a node.
    """
    sizes = [*capacity, *asked]
    return len(set(capacity)) == 1 and all(size > 0 and size & (size - 1) == 0 for size in sizes)
