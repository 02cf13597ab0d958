"""Logs in which a job ends before and after its end under fair sharing."""

from __future__ import annotations

import pytest
from tests.harness.scenarios.log_builder import LogBuilder
from tests.harness.scenarios.verdicts import broken, holds

from steepest.events import cluster as c
from steepest.invariants.checkers.fair_end import FairEnd


def promised(fair_end_ms: int | None) -> LogBuilder:
    """A job runs, and a plan states its fair end."""
    story = LogBuilder().opened(n1=1000).running("a", "n1", cpu_m=50)
    because = c.LimitsBecause(rule="written by hand", standing=(c.FairStanding("a", 500, fair_end_ms=fair_end_ms),))
    return story.add(c.LimitsPlanned(plan="p", node="n1", limits=(c.JobLimit("a", 1, cpu_m=500),), because=because))


def ended(story: LogBuilder, after_s: int, outcome: c.Outcome = c.Outcome.FINISHED) -> LogBuilder:
    """The job ends so much later."""
    for _ in range(after_s):
        story.add(c.Tick(counted_ms=1_000 * story.end))
    return story.add(c.JobEnded(job="a", outcome=outcome))


def test_a_job_may_end_before_its_fair_end_and_a_little_after_it() -> None:
    """Both are counted."""
    assert holds(FairEnd, ended(promised(100_000), 10)).startswith("jobs with a fair end: 1, more than 5 % later: 0")
    assert holds(FairEnd, ended(promised(20_000), 30)).startswith("jobs with a fair end: 1, more than 5 % later: 1")


def test_a_job_that_ends_much_later_is_a_breach() -> None:
    """The plan that stated its fair end is the evidence, beside its end."""
    story = ended(promised(20_000), 60)
    plan = next(one.offset for one in story.records if isinstance(one.event, c.LimitsPlanned))
    evidence, message = broken(FairEnd, story)
    assert evidence == (plan, story.end - 1)
    assert message.startswith("a ends ")


def test_the_promise_holds_for_a_job_that_the_policy_suspended() -> None:
    """Its plan says how the job stood against its fair end."""
    story = promised(20_000).add(
        c.TransitionPlanned(
            plan="s",
            job="a",
            incarnation=1,
            kind=c.Transition.SUSPEND,
            sources=("n1",),
            because=c.Because(rule="written by hand", standing=c.FairStanding("a", 500)),
        )
    )
    broken(FairEnd, ended(story.add(c.JobSuspended(plan="s", job="a", took_ms=1)), 60))


@pytest.mark.parametrize(
    "story",
    [
        ended(promised(None), 60),
        ended(promised(20_000), 60, c.Outcome.CANCELLED),
        ended(promised(20_000).add(c.NodeLost(node="n1", silent_ms=1)), 60),
        ended(promised(20_000).add(c.PoolConfigured()), 60),
        ended(promised(20_000).add(c.JobSuspended(plan="s", job="a", took_ms=1)), 60),
    ],
    ids=["unknown", "cancelled", "node lost", "configured", "suspended"],
)
def test_nothing_is_promised_where_it_cannot_be_kept(story: LogBuilder) -> None:
    """A job of unknown size, one that did not finish, and one whose pool changed."""
    assert holds(FairEnd, story) == "jobs with a fair end: 0, more than 5 % later: 0"
