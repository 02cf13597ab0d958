"""Unsound logs about CPU limits: one anomaly each, which the checker must find and point at."""

from __future__ import annotations

import pytest
from tests.harness.scenarios.log_builder import LogBuilder
from tests.harness.scenarios.verdicts import broken, holds

from steepest.events import cluster as c
from steepest.invariants.checkers.limit_rules import Limits

NL, WL, CL = c.GrowthList


def limited(*limits_m: int | None, of: c.GrowthList = NL, node: str = "n1") -> LogBuilder:
    """A run of FlowCon gives these limits to the jobs of a node with a core."""
    names = "abc"[: len(limits_m)]
    story = LogBuilder().opened(n1=1000)
    for name in names:
        story.running(name, "n1", cpu_m=50)
    because = c.LimitsBecause(
        rule="written by hand", jobs=tuple(c.GrowthSeen(one, of, 1.0) for one in names), total=3.0
    )
    limits = tuple(c.JobLimit(one, 1, of, cpu_m) for one, cpu_m in zip(names, limits_m, strict=True))
    return story.add(c.LimitsPlanned(plan="limits", node=node, limits=limits, because=because))


def applied(cpu_m: int | None, plan: str = "limits", job: str = "a", node: str = "n1", **other: int) -> c.LimitsApplied:
    """An engine's yes."""
    return c.LimitsApplied(plan=plan, node=node, job=job, incarnation=other.get("incarnation", 1), cpu_m=cpu_m)


def test_what_was_planned_may_come_in_force() -> None:
    """Plans and what was set are counted."""
    assert holds(Limits, limited(300, None).add(applied(300))) == "plans: 1, limits set: 1"


@pytest.mark.parametrize("cpu_m", [1, 9, 1000, 5000])
def test_a_limit_that_is_next_to_nothing_or_none_is_a_breach(cpu_m: int) -> None:
    """Below 1 % of a core nothing runs, and what a node does not have is no limit."""
    story = limited(cpu_m)
    evidence, message = broken(Limits, story)

    assert evidence == (story.end - 1,)
    assert f"limits a to {cpu_m}m of 1000m" in message


def test_limits_that_come_to_two_nodes_are_a_breach() -> None:
    """Shares come to one node, floors to less than another; limits that watched jobs keep are of other runs."""
    assert "2997m in total" in broken(Limits, limited(999, 999, 999))[1]
    assert holds(Limits, limited(999, 999, 999, of=WL))


def test_a_node_that_never_joined_has_no_jobs() -> None:
    """Nothing is to be limited there."""
    assert "never joined" in broken(Limits, limited(300, node="n9"))[1]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (applied(200), "plans 300 for a, but 200 was set"),
        (applied(None), "plans 300 for a, but None was set"),
        (applied(300, plan="other"), "has no limit for it there"),
        (applied(300, job="b"), "has no limit for it there"),
        (applied(300, node="n2"), "has no limit for it there"),
        (applied(300, incarnation=2), "is for incarnation 1 of a, not 2"),
        (
            c.LimitsRefused(plan="x", node="n1", job="a", incarnation=1, code="no", definite=True, message=""),
            "has no limit for it there",
        ),
    ],
)
def test_an_answer_is_of_what_was_planned(answer: c.ClusterEvent, why: str) -> None:
    """An applied limit that differs from the plan, or is for another job, has no plan to act on."""
    story = limited(300).add(answer)
    evidence, message = broken(Limits, story)

    assert evidence[-1] in {story.end - 1, story.end - 2}
    assert why in message
