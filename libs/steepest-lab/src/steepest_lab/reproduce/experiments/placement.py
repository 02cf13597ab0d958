"""Where an experiment's jobs run first: dealt evenly, or as unevenly as the thesis' one example of it.

SpeCon's authors pin each job's first node for both runs, and print neither which one it gets nor how even they are. Their
worked example (thesis §6.2.3) shows four workers with 6, 3, 2 and 2 jobs. How much SpeCon gains depends on it more than on
anything else, so every experiment on several nodes is run from both starts.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Mapping

from steepest_lab.sim.cluster_spec import ClusterSpec
from steepest_lab.sim.workload import Workload


class Start(enum.StrEnum):
    """How first nodes are chosen."""

    ONE_NODE = "one node"  # there is no choice
    EVEN = "even start"  # one job after the other to the next node
    UNEVEN = "uneven start"  # of 13 jobs on four nodes 6, 3, 2 and 2; which ones is drawn


EXAMPLE = (6, 3, 2, 2)
"""Jobs on the workers of the thesis' worked example."""

ASSUMPTION = (
    "SpeCon's authors pin each job's first node for both runs and do not print it. Even start: node after node in the order "
    "of arrival. Uneven start: as many to each node as in the thesis' worked example (6, 3, 2 and 2); which jobs, is drawn."
)


def first_nodes(workload: Workload, cluster: ClusterSpec, start: Start, seed: int) -> Mapping[str, str]:
    """The first node of every job, by their names.

    Args:
        workload: The jobs.
        cluster: The nodes; beyond four, the example repeats.
        start: Even or uneven.
        seed: Draws the order in which the jobs of an uneven start are dealt.
    """
    jobs = [job.name for job in workload.jobs]
    nodes = [node.name for node in cluster.nodes]
    if start is not Start.UNEVEN:
        return {job: nodes[number % len(nodes)] for number, job in enumerate(jobs)}
    shares = {node: EXAMPLE[number % len(EXAMPLE)] for number, node in enumerate(nodes)}
    draw = random.Random(f"{seed}/first-nodes")  # noqa: S311 - no secret depends on it
    # random() alone is promised to be the same in every Python.
    drawn = sorted(range(len(jobs)), key=[draw.random() for _ in jobs].__getitem__)
    return {jobs[job]: node for job, node in zip(drawn, _dealt(shares, len(jobs)), strict=True)}


def _dealt(shares: Mapping[str, int], count: int) -> list[str]:
    """``count`` nodes in the proportion of their shares (largest average: D'Hondt); ties go to the first."""
    given = dict.fromkeys(shares, 0)
    for _ in range(count):
        chosen = max(shares, key=lambda node: shares[node] / (given[node] + 1))
        given[chosen] += 1
    return [node for node, number in given.items() for _ in range(number)]
