"""The share of a node that each job uses, and the resource of which it uses the most.

Interpretation. The thesis defines growth efficiency for each of CPU, memory, block I/O and network I/O (equation 4.2), its
authors' code measures CPU, and neither says how several are combined. Here a job is measured by the resource of which it
uses the largest share, its *dominant* one (as in dominant resource fairness): G is then the least of its efficiencies, and
a resource that it hardly uses cannot make it look efficient. A node's capacity for I/O is not known, and memory's not
everywhere: there the share is that of what all jobs on the node use together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from steepest.events.common import Resources
from steepest.events.parameters import Resource

LEAST_SHARE = 0.001
"""The smallest measurable share of memory and I/O; one millicore is that of CPU."""


class UsedShare(msgspec.Struct, frozen=True):
    """What a job uses of its node.

    Attributes:
        share: Rounded; None: not measured.
    """

    resource: Resource
    share: float | None


def considered(resources: Sequence[Resource], used: Sequence[Mapping[Resource, float]]) -> tuple[Resource, ...]:
    """Those of the resources that are measured for every job of which any is measured: others would not compare jobs."""
    known = [one for one in used if any(resource in one for resource in resources)]
    return tuple(resource for resource in resources if known and all(resource in one for one in known))


def dominant(
    resources: Sequence[Resource], capacity: Resources, used: Sequence[Mapping[Resource, float]], job: int
) -> UsedShare:
    """The resource of which a job uses the largest share of its node; CPU where none is measured.

    Args:
        resources: Those that are considered; the first of equal ones counts.
        capacity: The node's.
        used: Mean use by every job on the node.
        job: Which of them.
    """
    shares = [
        UsedShare(resource, round(used[job][resource] / (_capacity(resource, capacity, used) or 1), 9))
        for resource in resources
        if resource in used[job]
    ]
    return max(shares, key=lambda one: one.share or 0.0, default=UsedShare(Resource.CPU, None))


def _capacity(resource: Resource, capacity: Resources, used: Sequence[Mapping[Resource, float]]) -> float:
    if resource is Resource.CPU:
        return max(capacity.cpu_m, 1)
    if resource is Resource.MEMORY and capacity.memory_mib:
        return capacity.memory_mib
    return sum(one.get(resource, 0.0) for one in used)


def least(resource: Resource, capacity: Resources) -> float:
    """The smallest share of a resource that can be measured."""
    return 1 / max(capacity.cpu_m, 1) if resource is Resource.CPU else LEAST_SHARE
