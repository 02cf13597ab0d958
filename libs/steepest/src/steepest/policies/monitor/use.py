"""What a node used since that was told last, and how often it is told.

Every ``NodeUsage`` is kept for ever, so a node's measurements are put together: one fact holds their mean and their number,
from which FlowCon's means over a bucket come out as from the measurements themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steepest.events import cluster as c
from steepest.events.common import LARGEST, Resources
from steepest.events.registry import STATE_IS_BOUNDED
from steepest.view.cluster_view import ClusterView

USAGE_EVERY_MS = 500
"""Shortest time between two ``NodeUsage`` of one node."""

FACTS_PER_SILENCE = 3
"""Facts of a node's use in the time after which it is lost: two may be late."""

FACTS_PER_BUCKET = 6
"""Facts of a node's use in an interval of the categorizer: so much of FlowCon's mean may be its neighbour's."""


def usage_every_ms(view: ClusterView) -> int:
    """How often a node's use is to become a fact of this pool; 0 in a pool whose readers expect all of it."""
    if not view.has(STATE_IS_BOUNDED):
        return 0
    parameters = view.parameters
    wanted = min(parameters.node_lost_ms // FACTS_PER_SILENCE, parameters.specon.interval_ms // FACTS_PER_BUCKET)
    return max(wanted, USAGE_EVERY_MS)


class Use(msgspec.Struct):
    """Measurements of a node, added up."""

    measured: int = 0
    total: Resources = Resources()
    jobs: dict[str, int] = {}

    def add(self, used: Resources, jobs: Mapping[str, int]) -> None:
        """One more measurement, of the same jobs."""
        sum_ = self.total + used
        self.measured += 1
        self.total = Resources(*(min(one, LARGEST) for one in (sum_.cpu_m, sum_.memory_mib, sum_.gpus)))
        self.jobs = {job: min(self.jobs.get(job, 0) + cpu_m, LARGEST) for job, cpu_m in jobs.items()}

    def mean(self, node: str) -> c.NodeUsage:
        """What is told of them."""
        count, total = self.measured, self.total
        used = Resources(total.cpu_m // count, total.memory_mib // count, total.gpus // count)
        jobs = {job: cpu_m // count for job, cpu_m in self.jobs.items()}
        return c.NodeUsage(node=node, used=used, jobs=jobs, measured=count)
