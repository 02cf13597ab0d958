"""When a job has learned what its user asked for, and what follows."""

from __future__ import annotations

from typing import Any

import click
import msgspec
import pytest
from tests.harness.scenarios.folded_pool import grown, migration
from tests.harness.system.driver import DeciderDriver
from tests.unit.view.test_progress import Trained

from steepest.cli.jobs.job_options import goal_of
from steepest.events import cluster as c
from steepest.policies.decider import Readers, fold_and_decide
from steepest.policies.goal_watcher import GoalWatcher
from steepest.policies.placement.placer import Placer
from steepest.view.state import Phase, PlanKind


class Watched(Trained):
    """A pool in which job ``a`` has a goal."""

    def __init__(self, goal: c.Goal | None, **spec: Any) -> None:
        super().__init__(goal=goal, **spec)
        self.watcher = GoalWatcher()

    def interval(self, *means: float, metric: str = "") -> list[c.ClusterEvent]:
        """Intervals of the job with these means of two reports each; what the watcher decides about them."""
        found: list[c.ClusterEvent] = []
        for mean in means:
            measured = c.GrowthMeasured(
                job="a",
                interval=1,
                total=2 * mean,
                count=2,
                largest=9.0,
                first_ms=0,
                last_ms=0,
                category=c.Category.PROGRESSING,
                metric=metric,
            )
            _, (decided,) = fold_and_decide(self.view, Readers([self.watcher]), self.append(measured))
            found += decided
        return found


@pytest.mark.parametrize(
    ("goal", "means", "reached"),
    [
        (c.Goal(below=0.1), [0.3, 0.1, 0.09], "loss < 0.1: 0.09 in the last interval"),
        (c.Goal(below=0.1), [0.3, 0.2, 0.1], ""),
        (c.Goal(above=0.9), [0.3, 0.9, 0.95], "loss > 0.9: 0.95 in the last interval"),
        (c.Goal(patience=2), [0.3, 0.2, 0.25, 0.2], "loss has not improved for 2 intervals"),
        (c.Goal(patience=2), [0.3, 0.2, 0.25, 0.19, 0.25], ""),
        (c.Goal(above=9.0, patience=1), [0.3, 0.4, 0.4], "loss has not improved for 1 interval"),
        (None, [0.3, 0.0], ""),
    ],
)
def test_a_goal_is_reached_by_the_mean_of_an_interval(goal: c.Goal | None, means: list[float], reached: str) -> None:
    """Of a job that has one; a mean that only equals the bound or the best one is not better."""
    *before, last = means
    pool = Watched(goal)
    assert pool.interval(*before) == []
    found = pool.interval(last)
    assert [event.reason for event in found if isinstance(event, c.GoalReached)] == ([reached] if reached else [])


@pytest.mark.parametrize(
    ("metric", "rises"),
    [
        ("accuracy", True),
        ("val_acc", True),
        ("eval/F1", True),
        ("mAP50", True),
        ("reward", True),
        ("top5", True),
        ("loss", False),
        ("perplexity", False),
        ("accumulated_loss", False),
        ("macro_error", False),
        ("wer", False),
    ],
)
def test_patience_alone_waits_for_what_the_metrics_name_says_is_better(metric: str, *, rises: bool) -> None:
    """A job whose accuracy grows has not stopped to improve."""
    better, worse = ([0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1])[:: 1 if rises else -1]
    assert Watched(c.Goal(patience=2), metric=metric).interval(*better) == []
    assert Watched(c.Goal(patience=2), metric=metric).interval(*worse) != []
    assert Watched(c.Goal(below=0.01, patience=2), metric=metric).interval(0.4, 0.3, 0.2, 0.1) == []


def test_patience_begins_anew_with_another_metric() -> None:
    """Its values are of another scale: that they are larger is not that they are worse."""
    pool = Watched(c.Goal(patience=2))
    assert pool.interval(0.5, 0.6) == []
    assert pool.interval(2_000, metric="perplexity") == []
    assert pool.interval(1_900, 1_800) == []


def test_a_goal_that_the_log_refuses_is_reported_again() -> None:
    """The job was between two places when the report came; once it trains again, its next interval says so again."""
    watcher = GoalWatcher()
    pool = DeciderDriver(watcher, delay=3, w1=1_000, w2=1_000)
    pool.fold(c.PoolConfigured())
    pool.run("a", "w1", goal=c.Goal(below=0.1))
    pool.fold(migration("a", "w1", "w2"))
    pool.act("a")
    reached = msgspec.structs.replace(grown("a"), total=0.05)
    pool.fold(reached)
    pool.act("a")
    assert not pool.job("a").alive
    pool.deliver(everything=True)
    assert not pool.job("a").goal_reached
    pool.carry_out("a")

    pool.fold(reached)
    pool.deliver(everything=True)

    assert pool.job("a").goal_reached
    assert [type(event) for event in pool.decided] == [c.GoalReached] * 2


def test_a_rejected_job_is_forgotten() -> None:
    """It ran, failed, and has no room any more; a rejection of another job of its name forgets nothing."""
    pool = Watched(c.Goal(below=0.1))
    pool.interval(0.5)
    for request in ("another", pool.a.request):
        pool.fold(c.JobRejected(job="a", request=request, reason="no room"))
        pool.watcher.step(pool.view, pool.log[-1])
        assert list(pool.watcher.state.best) == ["a"]
    pool.feed(pool.stopped("a", 1), c.RetryPlanned(job="a", incarnation=1, charged=True, not_before_ms=0, reason="1"))
    pool.fold(c.JobRejected(job="a", request=pool.a.request, reason="no room"))
    pool.watcher.step(pool.view, pool.log[-1])

    assert pool.watcher.state.best == {}


def test_what_is_saved_is_what_was_left() -> None:
    """By the announced total; where that is unknown, nothing is claimed."""
    pool = Watched(c.Goal(below=0.1), steps=1_000)
    pool.train(100, 200)
    (found,) = pool.interval(0.05)
    assert isinstance(found, c.GoalReached)
    assert found.cpu_ms_saved == 80_000
    (unknown,) = Watched(c.Goal(below=0.1)).interval(0.05)
    assert isinstance(unknown, c.GoalReached)
    assert unknown.cpu_ms_saved is None


def test_a_goal_is_reported_once_and_the_job_is_stopped_and_finished() -> None:
    """It is stopped as by a cancel, which lets it save; the placer ends it as finished."""
    pool = Watched(c.Goal(below=0.1))
    (found,) = pool.interval(0.05)
    assert pool.interval(0.04) == []
    assert pool.fold(found)
    assert pool.plan_of("a").kind is PlanKind.CANCEL
    pool.carry_out("a")
    assert pool.a.phase is Phase.STOPPED
    ended = [event for event in Placer().step(pool.view, pool.log[-1]) if isinstance(event, c.JobEnded)]
    reason = "goal reached: loss < 0.1: 0.05 in the last interval"
    assert ended == [c.JobEnded(job="a", outcome=c.Outcome.FINISHED, exit_status=85, reason=reason)]


def test_nothing_is_remembered_of_a_job_that_is_over() -> None:
    """However many jobs a pool has had."""
    pool = Watched(c.Goal(below=0.1))
    pool.interval(0.5, 0.05)
    pool.end("a")
    pool.watcher.step(pool.view, pool.log[-1])
    assert pool.watcher.state.best == {}


@pytest.mark.parametrize(
    ("until", "patience", "metric", "goal"),
    [
        ("loss<0.1", None, "loss", c.Goal(below=0.1)),
        (" loss < 1e-3 ", 4, "loss", c.Goal(below=0.001, patience=4)),
        ("accuracy>0.9", None, "accuracy", c.Goal(above=0.9)),
        (None, 3, "loss", c.Goal(patience=3)),
        (None, None, "loss", None),
    ],
)
def test_a_goal_is_written_as_a_condition(
    until: str | None, patience: int | None, metric: str, goal: c.Goal | None
) -> None:
    """On the metric that the job is judged by."""
    assert goal_of(until, patience, metric) == goal


@pytest.mark.parametrize(
    ("until", "why"),
    [
        ("loss", "write it like"),
        ("loss<=0.1", "write it like"),
        ("loss<nan", "write it like"),
        ("loss<0.1 or so", "write it like"),
        ("accuracy>0.9", "add --metric accuracy"),
    ],
)
def test_a_condition_that_cannot_be_judged_is_refused(until: str, why: str) -> None:
    """Before anything is submitted."""
    with pytest.raises(click.UsageError, match=why):
        goal_of(until, None, "loss")
