"""The use of resources other than CPU: which ones a pool considers, and each job's mean between two facts.

A fact about memory, block I/O or network I/O is kept permanently, like every fact, so a heartbeat states which of them the
pool's policy considers, and the others do not become facts.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steepest.events import cluster as c
from steepest.events.common import LARGEST
from steepest.events.heartbeat import NodeHeartbeat, ReplicaState
from steepest.events.parameters import Resource
from steepest.view.cluster_view import ClusterView

FIELDS: Mapping[Resource, str] = {
    Resource.MEMORY: "memory_mib",
    Resource.BLOCK_IO: "block_bytes_s",
    Resource.NETWORK_IO: "network_bytes_s",
}
"""The field of each resource in heartbeats and facts."""


def usage_of(view: ClusterView) -> tuple[Resource, ...]:
    """The resources besides CPU that FlowCon considers in a pool."""
    flowcon = view.parameters.flowcon
    return tuple(one for one in flowcon.resources if one in FIELDS) if flowcon.on else ()


def others_used(beat: NodeHeartbeat) -> dict[str, dict[Resource, int]]:
    """The use of each job that runs on a node, as far as it is measured; sorted by name."""
    used: dict[str, dict[Resource, int]] = {}
    if not beat.usage_of:
        return used
    for report in beat.replicas:
        for resource in beat.usage_of if report.state is ReplicaState.RUNNING else ():
            value = getattr(report, FIELDS[resource], None) if resource in FIELDS else None
            if value is not None:
                mine = used.setdefault(report.job, {})
                mine[resource] = mine.get(resource, 0) + value
    return dict(sorted(used.items()))


class Measured(msgspec.Struct):
    """The sum of ``count`` measurements."""

    total: int = 0
    count: int = 0

    def add(self, value: int, count: int = 1) -> None:
        """Add measurements with the sum ``value``."""
        self.total = min(self.total + value, LARGEST)
        self.count += count


Sums = dict[str, dict[Resource, Measured]]
"""The measurements of each job."""


def add(sums: Sums, used: Mapping[str, Mapping[Resource, int]]) -> None:
    """Add a measurement of each job."""
    for job, values in used.items():
        for resource, value in values.items():
            sums.setdefault(job, {}).setdefault(resource, Measured()).add(value)


def means(sums: Sums) -> dict[str, c.OtherUse]:
    """The mean of each job's measurements; one that is missing in some of them counts in the rest only."""
    return {
        job: c.OtherUse(**{FIELDS[one]: measured.total // measured.count for one, measured in found.items()})
        for job, found in sums.items()
    }
