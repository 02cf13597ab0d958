"""Panels as data: what is asked of Prometheus, and what the answer means.

It must never know how a panel becomes JSON. `$pool`, `$node` and `$job_name` are the variables of a dashboard.
"""

from __future__ import annotations

import msgspec


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """A panel.

    Attributes:
        about: What it shows, and what to do about it; people read it at the panel's corner.
        queries: Expressions with the legend of their series.
        unit: Grafana's name of the unit.
        width: In columns of 24.
        is_stat: Whether only the newest value is shown, as a number.
        most: The upper end of the axis, where it is known.
    """

    title: str
    about: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    width: int = 8
    is_stat: bool = False
    most: float | None = None


class Variable(msgspec.Struct, frozen=True):
    """A choice at the top of a dashboard: a label's values in a metric."""

    name: str
    label: str
    metric: str
    of: str


class DashboardDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A dashboard: its rows of panels by title."""

    uid: str
    title: str
    about: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    variables: tuple[Variable, ...] = ()


POOL = Variable("pool", "pool", "steepest_pool_info", "pool")
NODE = Variable("node", "node", 'steepest_node_up{pool=~"$pool"}', "node")
JOB = Variable("job_name", "job", 'steepest_job_step{pool=~"$pool"}', "job_name")

IN_POOL = 'pool=~"$pool"'
ON_NODE = 'pool=~"$pool", node=~"$node"'
OF_JOB = 'pool=~"$pool", job_name=~"$job_name"'


def quantiles(metric: str, by: str, where: str = IN_POOL, legend: str = "") -> tuple[tuple[str, str], ...]:
    """The middle and the 95th percentile of a histogram over the range that is shown."""
    labels = f", {by}" if by else ""
    shown = f" {legend}" if legend else ""
    return tuple(
        (
            f"histogram_quantile({share}, sum by (le{labels}) (increase(steepest_{metric}_bucket{{{where}}}[$__range])))",
            f"p{round(100 * share)}{shown}",
        )
        for share in (0.5, 0.95)
    )


def mean(metric: str, by: str, where: str = IN_POOL) -> str:
    """The mean of a histogram over the range that is shown."""
    sums = (f"sum by ({by}) (increase(steepest_{metric}_{part}{{{where}}}[$__range]))" for part in ("sum", "count"))
    return " / ".join(sums)


def by_policy(metric: str, where: str = "") -> str:
    """The same for each policy, over the pools that run it."""
    policy = "on (pool) group_left (policy) max by (pool, policy) (steepest_pool_info)"
    sums = (
        f"sum by (policy) (sum by (pool) (increase(steepest_{metric}_{part}{{{where}}}[$__range])) * {policy})"
        for part in ("sum", "count")
    )
    return " / ".join(sums)
