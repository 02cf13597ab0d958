"""Which workers a gang gives up, in which order, and on which nodes it gets more.

The rules (``ScaleDown`` and ``ScaleUp`` of the same file as :mod:`steepest.policies.dragon.packing`, and its README):

* Workers leave their *home* last: the node of the gang's first parameter server or, without one, the node with most of its
  replicas. Of the other nodes, those with fewest replicas of the gang are left first: lonely replicas go first.
* Parameter servers are *critical*, and so is every role whose number is fixed: they never leave.
* For a job that says which nodes it may run on, workers on these nodes leave before all others, and none without one of
  them: room elsewhere does not help it. DRAGON knows no such jobs.
* A role grows on the home first, and only where its job may run.

It owns these orders for one gang. It must never know other gangs or plans.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence

import msgspec

from steepest.events.common import Resources
from steepest.events.dragon_parameters import Growth
from steepest.events.requests import Role
from steepest.policies.placement.gangs import GangPlaces
from steepest.view.state import Job

Freed = list[tuple[str, Resources]]
"""What leaving workers give back, each with its node."""

Helps = Callable[[str], bool]
"""Whether room on a node helps the job that workers leave for."""


class Shape(msgspec.Struct):
    """The replicas of a running gang, role by role.

    Attributes:
        roles: The job's roles.
        placed: The node of each replica of each role.
    """

    roles: tuple[Role, ...]
    placed: list[list[str]]

    @classmethod
    def of(cls, job: Job) -> Shape:
        """The replicas of a job as they run."""
        placed: list[list[str]] = [[] for _ in job.spec.all_roles]
        for replica in job.replicas:
            if replica.alive:
                placed[replica.role].append(replica.node)
        return cls(job.spec.all_roles, placed)

    def copy(self) -> Shape:
        """One that can be changed without this one."""
        return Shape(self.roles, [list(nodes) for nodes in self.placed])

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many replicas of each role."""
        return tuple(map(len, self.placed))

    @property
    def places(self) -> GangPlaces:
        """As a plan names them."""
        return GangPlaces(tuple(name for nodes in self.placed for name in nodes), self.sizes)

    @property
    def home(self) -> str:
        """The node of the first parameter server or, without one, the node with most replicas."""
        for role, nodes in zip(self.roles, self.placed, strict=True):
            if role.is_server and nodes:
                return nodes[0]
        counts = self.counts()
        return max(counts, key=counts.__getitem__)

    def leaving(self, job: Job) -> tuple[int, ...]:
        """The replicas of a job, as it runs, that are not in this shape; empty where this shape has others than they are.

        Of the replicas of a role on a node, the last ones leave.
        """
        leaving: list[int] = []
        for role, nodes in enumerate(self.placed):
            staying = {name: nodes.count(name) for name in dict.fromkeys(nodes)}
            for index, replica in enumerate(job.replicas):
                if replica.role == role and replica.alive:
                    if not staying.get(replica.node):
                        leaving.append(index)
                    else:
                        staying[replica.node] -= 1
            if any(staying.values()):
                return ()
        return tuple(sorted(leaving))

    def counts(self) -> dict[str, int]:
        """How many replicas there are on each node, in the order of the replicas."""
        counts: dict[str, int] = {}
        for nodes in self.placed:
            for name in nodes:
                counts[name] = counts.get(name, 0) + 1
        return counts

    def next_size(self, index: int, change: int) -> int | None:
        """The next smaller (``change`` -1) or larger size (1) that a role allows; None where there is none."""
        role, size = self.roles[index], len(self.placed[index])
        if role.is_server or role.fewest == role.most:
            return None
        size += change
        while role.fewest <= size <= role.most:
            if role.allows(size):
                return size
            size += change
        return None

    def shrink(self, helps: Helps | None = None) -> Iterator[Freed]:
        """Give up workers, from one allowed size to the next smaller one, down to the smallest.

        Args:
            helps: Where room helps; as soon as no worker of a role is there, no more of them leave. None: everywhere.
        """
        home = self.home
        for index, role in enumerate(self.roles):
            while (smaller := self.next_size(index, -1)) is not None:
                if helps is not None and not any(map(helps, self.placed[index])):
                    break
                leaving = [self._leave(index, home, helps) for _ in range(len(self.placed[index]) - smaller)]
                yield [(name, role.requests) for name in leaving]

    def _leave(self, index: int, home: str, helps: Helps | None) -> str:
        counts = self.counts()
        nodes = self.placed[index]
        helpful = {name: helps is None or helps(name) for name in dict.fromkeys(nodes)}
        name = min(helpful, key=lambda name: (not helpful[name], name == home, counts[name], name))
        last = len(nodes) - 1 - nodes[::-1].index(name)
        del nodes[last]
        return name

    def grow(
        self, growth: Growth, free: dict[str, Resources], others: Sequence[str], allowed: Container[str]
    ) -> Iterator[None]:
        """Add workers, from one allowed size to the next larger one that fits, and take them out of ``free``.

        Args:
            growth: On which nodes.
            free: What is free on each.
            others: Those of the allowed ones that any replica may still fit on, in the order in which they are tried.
            allowed: The nodes that the gang's replicas may use.
        """
        nodes = self._may_grow_on(growth, allowed, others)
        for index, role in enumerate(self.roles):
            while (larger := self.next_size(index, 1)) is not None:
                added: list[str] = []
                while len(self.placed[index]) + len(added) < larger:
                    name = next((name for name in nodes if role.requests.fits(free[name])), None)
                    if name is None:
                        break
                    added.append(name)
                    free[name] -= role.requests
                if len(self.placed[index]) + len(added) < larger:
                    for name in added:
                        free[name] += role.requests
                    break
                self.placed[index] += added
                yield

    def _may_grow_on(self, growth: Growth, allowed: Container[str], others: Sequence[str]) -> list[str]:
        home, counts = self.home, self.counts()
        nodes = [home] if home in allowed else []
        if growth is not Growth.SERVER_NODE:
            own = sorted(counts, key=lambda name: (-counts[name], name))
            nodes += [name for name in own if name != home and name in allowed]
        if growth is Growth.ANYWHERE:
            nodes += [name for name in others if name not in counts]
        return nodes
