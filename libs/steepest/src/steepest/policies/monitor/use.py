"""Aggregates a node's usage between two facts, and decides how often it is reported.

Every ``NodeUsage`` is kept permanently, so a node's measurements are aggregated: a fact has their mean and their number,
from which FlowCon computes the same means over a bucket as from the measurements themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steepest.events import cluster as c
from steepest.events.common import LARGEST, Resources
from steepest.events.parameters import Resource
from steepest.policies.monitor import others
from steepest.view.cluster_view import ClusterView

USAGE_EVERY_MS = 500
"""Shortest time between two ``NodeUsage`` of one node."""

FACTS_PER_SILENCE = 3
"""Usage facts of a node in the time after which it counts as lost: two may be late."""

FACTS_PER_BUCKET = 6
"""Usage facts of a node in an interval of the categorizer: at most this fraction of FlowCon's mean is its neighbour's."""


PROGRESS_EVERY_MS = 1_000
"""Least time between two facts about the progress of one replica."""

SAVED_EVERY_MS = 10_000
"""Least time between two facts about the newest checkpoint of a job. A job deletes all but its newest two, so one that
diverges can only go back to a checkpoint that the log has heard of while it was there."""


def usage_every_ms(view: ClusterView) -> int:
    """The period of a node's usage facts in milliseconds."""
    parameters = view.parameters
    wanted = min(parameters.node_lost_ms // FACTS_PER_SILENCE, parameters.specon.interval_ms // FACTS_PER_BUCKET)
    if parameters.steepest.on:
        wanted = min(wanted, PROGRESS_EVERY_MS)  # it plans by what is left of each job
    return max(wanted, USAGE_EVERY_MS)


class UsageTotal(msgspec.Struct):
    """The sum of a node's measurements."""

    measured: int = 0
    total: Resources = Resources()
    jobs: dict[str, int] = {}
    others: others.Sums = {}

    def add(self, used: Resources, jobs: Mapping[str, int], used_besides: Mapping[str, Mapping[Resource, int]]) -> None:
        """Add a measurement with the same jobs."""
        sum_ = self.total + used if self.measured else used
        self.measured += 1
        self.total = Resources(min(sum_.cpu_m, LARGEST), min(sum_.memory_mib, LARGEST), min(sum_.gpus, LARGEST))
        self.jobs = {job: min(self.jobs.get(job, 0) + cpu_m, LARGEST) for job, cpu_m in jobs.items()}
        if used_besides:
            others.add(self.others, used_besides)

    def mean(
        self, node: str, progress: tuple[c.ReplicaProgress, ...] = (), gpus: tuple[c.GpuUse, ...] = ()
    ) -> c.NodeUsage:
        """The fact with their mean, and with the progress of replicas on the node, and the newest use of its GPUs."""
        count, total = self.measured, self.total
        used = Resources(total.cpu_m // count, total.memory_mib // count, total.gpus // count)
        jobs = {job: cpu_m // count for job, cpu_m in self.jobs.items()}
        return c.NodeUsage(
            node=node,
            used=used,
            jobs=jobs,
            measured=count,
            progress=progress,
            others=others.means(self.others) if self.others else {},
            gpus=gpus,
        )
