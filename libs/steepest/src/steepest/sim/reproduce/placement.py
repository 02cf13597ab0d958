"""Where an experiment's jobs run first under the default scheduler: drawn by lot.

SpeCon's authors pin each job's first node for both runs, and do not say which one it gets. Jobs that were spread evenly
would leave SpeCon nothing to mend; the thesis' worked example (§6.2.3: 6, 3, 2 and 2 jobs on four workers) shows that
theirs were not. A lot for each job comes to such unevenness. SpeCon's own runs have the same lots, because it only moves
what runs; FlowCon 2.0 places the jobs itself.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Mapping

from steepest.sim.cluster_spec import ClusterSpec
from steepest.sim.workload import Workload


class Lots(enum.StrEnum):
    """Whose jobs' first nodes are drawn by lot."""

    NOBODY = "nobody"  # the placement policy decides
    DEFAULT = "default"  # the default run's
    BOTH = "both"  # that, and the same ones for every arm


ASSUMPTION = (
    "The first node of each job is drawn uniformly at random and pinned for both runs: the thesis pins it, without saying "
    "to which, and its worked example is as uneven as lots are."
)


def first_nodes(workload: Workload, cluster: ClusterSpec, seed: int) -> Mapping[str, str]:
    """The first node of every job, by their names."""
    lots = random.Random(f"{seed}/first-nodes")  # noqa: S311 - no secret depends on it
    names = [node.name for node in cluster.nodes]
    # random() alone is promised to be the same in every Python.
    return {job.name: names[int(lots.random() * len(names))] for job in workload.jobs}
