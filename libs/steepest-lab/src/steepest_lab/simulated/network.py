"""The links over which the members of gangs exchange what they have learned at each step.

The model (a reconstruction; DRAGON's programs state none). Each node has two links: a *local* one, over which replicas on it
exchange, and one to the *network*, in both directions alike. A gang loads every link that it uses with so much at each step;
the gangs on a link share its rate equally, as if each used it all the time. The exchange of a step takes as long as on the
gang's slowest link, and does not overlap with its computing.

What a gang of ``W`` workers exchanges, each its gradients of ``M`` MiB:

* By all-reduce in a ring (Patarasuk and Yuan, 2009) each replica sends ``2·M·(W − 1) / W`` to the next one; the ring leaves
  each node once.
* With ``P`` parameter servers, which hold ``M / P`` each, every worker sends its gradients and gets the parameters. A node
  with ``w`` workers and ``p`` servers sends ``M·(w·(P − p) + p·(W − w)) / P`` to others, and ``2·M·w·p / P`` within.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import msgspec

Link = tuple[str, str]
"""``local`` or ``network``, and the node."""


class Rates(msgspec.Struct, frozen=True):
    """The rates of a node's links in MiB/s.

    Attributes:
        local_mib_s: Between replicas on the node.
        network_mib_s: To other nodes.
    """

    local_mib_s: float
    network_mib_s: float


class Place(msgspec.Struct, frozen=True):
    """Where a member of a gang is, and whether it serves parameters."""

    node: str
    serves: bool


class Network:
    """The links of all nodes, and who uses them."""

    def __init__(self, rates: Mapping[str, Rates]) -> None:
        """Links that are not used; a node without rates has links without end."""
        self._rates = rates
        self._users: dict[Link, dict[Hashable, float]] = {}
        self._loads: dict[Hashable, Mapping[Link, float]] = {}

    def join(self, user: Hashable, loads: Mapping[Link, float]) -> Sequence[Hashable]:
        """Add a user of links, with its MiB on each at every step; return the users whose share becomes smaller."""
        self._loads[user] = loads
        for link, load in loads.items():
            self._users.setdefault(link, {})[user] = load
        return self._beside(user, loads)

    def leave(self, user: Hashable) -> Sequence[Hashable]:
        """Remove a user of links; return the users whose share becomes larger."""
        loads = self._loads.pop(user, {})
        for link in loads:
            del self._users[link][user]
        return self._beside(user, loads)

    def step_s(self, user: Hashable) -> float:
        """Seconds that an exchange takes now."""
        return max((self._takes_s(link, load) for link, load in self._loads.get(user, {}).items()), default=0.0)

    def _beside(self, user: Hashable, links: Iterable[Link]) -> Sequence[Hashable]:
        others = dict.fromkeys(other for link in links for other in self._users[link])
        return [other for other in others if other != user]

    def _takes_s(self, link: Link, load: float) -> float:
        kind, node = link
        rates = self._rates.get(node)
        if rates is None:
            return 0.0
        return load * len(self._users[link]) / (rates.local_mib_s if kind == "local" else rates.network_mib_s)


def loads_of(members: Sequence[Place], exchanged_mib: float) -> dict[Link, float]:
    """The load of a gang on its links at each step, in MiB."""
    workers: dict[str, int] = {}
    servers: dict[str, int] = {}
    for member in members:
        counts = servers if member.serves else workers
        counts[member.node] = counts.get(member.node, 0) + 1
    total, held = sum(workers.values()), sum(servers.values())
    loads: dict[Link, float] = {}
    for node in dict.fromkeys(member.node for member in members):
        w, p = workers.get(node, 0), servers.get(node, 0)
        if held:
            away = exchanged_mib * (w * (held - p) + p * (total - w)) / held
            within = 2 * exchanged_mib * w * p / held
        else:
            each = 2 * exchanged_mib * (total - 1) / total
            away = each if w < total else 0.0
            within = each * (w if w == total else w - 1)
        for kind, load in (("network", away), ("local", within)):
            if load:
                loads[kind, node] = load
    return loads
