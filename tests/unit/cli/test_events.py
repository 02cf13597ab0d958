"""Which events ``steepest events`` shows of a job."""

from __future__ import annotations

import pytest

from steepest.cli.commands.events import chooser
from steepest.events import cluster as c
from steepest.events.common import Resources

LIMITS = c.LimitsPlanned(
    plan="p",
    node="n1",
    limits=(c.JobLimit("a", 1, c.GrowthList.NEW),),
    because=c.LimitsBecause(rule="written by hand", jobs=(c.GrowthSeen("b", c.GrowthList.NEW),)),
)


@pytest.mark.parametrize(
    ("event", "about"),
    [
        (c.JobCancelRequested(job="a", request="r"), ["a"]),
        (c.NodeUsage(node="n1", used=Resources(), jobs={"a": 1, "b": 2}), ["a", "b"]),
        (LIMITS, ["a"]),
        (c.NodeLost(node="n1", silent_ms=1), []),
    ],
)
def test_an_event_is_about_the_jobs_that_it_names(event: c.ClusterEvent, about: list[str]) -> None:
    """Its own job, those whose usage it reports, and those that it limits."""
    shown = [job for job in ("a", "b", "c") if chooser("cluster", job=job, types=(), show_all=True)(event)]

    assert shown == about
