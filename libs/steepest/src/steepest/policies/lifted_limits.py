"""What a planner of limits writes when its policy is switched off: the limits that it may have left are removed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from steepest.events import cluster as c
from steepest.view.cluster_view import ClusterView


def still_limited(view: ClusterView, names: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Of these jobs, in their order, those that run and have a limit planned, with node and incarnation."""
    jobs = [job for name in names if (job := view.jobs.get(name)) is not None]
    return {
        job.name: (job.nodes[0], job.incarnation)
        for job in jobs
        if job.alive and job.limit is not None and job.limit.cpu_m is not None
    }


def lifted(
    planner: str,
    offset: int,
    places: Mapping[str, tuple[str, int]],
    rule: str,
    growth_list: c.GrowthList | None = None,
) -> list[c.LimitsPlanned]:
    """A plan for each node that removes the limits of its jobs.

    Args:
        planner: What its plans' names begin with.
        offset: Of the record after which they are removed.
        places: The jobs in their order, with node and incarnation.
        rule: Why they are removed.
        growth_list: FlowCon's list that the jobs are in from then on.
    """
    limits: dict[str, list[c.JobLimit]] = {}
    for name, (node, incarnation) in places.items():
        limits.setdefault(node, []).append(c.JobLimit(name, incarnation, growth_list))
    return [
        c.LimitsPlanned(
            plan=f"{planner}-{offset}-{node}", node=node, limits=tuple(jobs), because=c.LimitsBecause(rule=rule)
        )
        for node, jobs in limits.items()
    ]
