"""What the categorizer writes beside the categories, what it ignores, and what its machine refuses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.harness.call_count import count_calls

from steepest.errors import BugError
from steepest.events.cluster import Category, CategoryChanged, GrowthMeasured, LogOpened, ReallocationRequested
from steepest.events.loss import JobUnwatched, JobWatched, LossReported
from steepest.events.parameters import Normalisation, SpeConParameters
from steepest.events.received import Received
from steepest.policies.decider import Decision, StreamDecider
from steepest.policies.specon import category_machine
from steepest.policies.specon.categorizer import Categorizer, Ignored
from steepest.policies.specon.category_machine import MOVES, Comparison, compare, move
from steepest.policies.specon.growth import LARGEST_VALUE


def watch(job: str = "a", *, incarnation: int = 1, pool: str = "pool", **parameters: Any) -> JobWatched:
    """The beginning of an incarnation's reports."""
    given = SpeConParameters(**parameters)
    return JobWatched(job=job, pool=pool, incarnation=incarnation, metric="loss", parameters=given)


def loss(value: float, job: str = "a") -> LossReported:
    """A report of incarnation 1."""
    return LossReported(job=job, incarnation=1, value=value)


def step(
    categorizer: Categorizer, event: Any, seconds: float = 0, *, source: str = "", seq: object = None
) -> Sequence[Decision]:
    """Give the categorizer one record."""
    headers = {"source": source} if source else {}
    if seq is not None:
        headers["seq"] = str(seq)
    at_ms = round(seconds * 1000)
    return categorizer.step(Received(event=event, topic="loss", partition=0, offset=0, at_ms=at_ms, headers=headers))


def ignored(categorizer: Categorizer) -> dict[str, int]:
    """The counts that are not zero."""
    return {name: count for name, count in msgspec.to_builtins(categorizer.state.ignored).items() if count}


def test_it_is_a_decider_over_the_loss_topic() -> None:
    """The runtime finds it by the protocol: its name is part of ids and never changes."""
    decider: StreamDecider = Categorizer()
    assert (decider.name, decider.topic) == ("categorizer", "loss")


def test_a_clock_that_was_ahead_stops_nothing() -> None:
    """One report from ten years ahead ends an interval early; the next one begins the grid again."""
    years_s = 10 * 365 * 86_400
    right, wrong = Categorizer(), Categorizer()
    for categorizer, ahead_s in ((right, 0), (wrong, years_s)):
        step(categorizer, watch())
        for second in range(50):
            step(categorizer, loss(1 / (second + 1)), second + (ahead_s if second == 40 else 0))
    late = [
        [
            sum(isinstance(each.event, GrowthMeasured) for each in step(one, loss(0.5), second))
            for second in range(50, 150)
        ]
        for one in (right, wrong)
    ]

    assert [sum(made) > 0 for made in late] == [True, True]
    assert wrong.state.jobs["a"].intervals is not None
    assert wrong.state.jobs["a"].intervals.now_ms == 149_000


def test_an_announcement_that_is_repeated_changes_nothing() -> None:
    """A reporter may repeat its announcement: the open interval and all counts stay as they are."""
    once, twice = Categorizer(), Categorizer()
    for seconds, value in enumerate((4.0, 3.0, 2.5, 2.5, 2.5, 1.0)):
        for categorizer in (once, twice):
            if seconds == 0 or categorizer is twice:
                step(categorizer, watch(interval_ms=2_000))
        assert step(once, loss(value), seconds) == step(twice, loss(value), seconds)

    assert once.state == twice.state


def test_parameters_of_a_job_that_runs_hold_from_the_next_report_on() -> None:
    """The open interval keeps its beginning and gets the new length, and its growth is compared with the new threshold."""
    categorizer = Categorizer()
    step(categorizer, watch(interval_ms=10_000, alpha=0.01))
    for seconds, value in ((0, 1.0), (5, 0.7), (11, 0.6)):
        step(categorizer, loss(value), seconds)
    step(categorizer, watch(interval_ms=20_000, alpha=0.5))

    assert not step(categorizer, loss(0.6), 25)
    measured, changed = (decision.event for decision in step(categorizer, loss(0.6), 31))
    assert isinstance(measured, GrowthMeasured)
    assert isinstance(changed, CategoryChanged)
    assert (measured.interval, measured.first_ms, measured.last_ms) == (2, 11_000, 25_000)
    assert (changed.growth, changed.after) == (0.1, Category.WATCHED)


def test_an_ended_interval_is_written_as_a_bucket_of_its_reports() -> None:
    """FlowCon's windows are built from buckets, so each has sum, count, largest so far, first and last time."""
    categorizer = Categorizer()
    step(categorizer, watch())
    for seconds, value in ((0, 4.0), (10, 1.5), (12, -2.5), (20, 2.0)):
        assert not step(categorizer, loss(value), seconds)
    (decision,) = step(categorizer, loss(0.5), 31)
    assert decision == Decision(
        "pool",
        GrowthMeasured(
            job="a",
            interval=1,
            total=1.0,
            count=3,
            largest=4.0,
            first_ms=10_000,
            last_ms=20_000,
            growth=round(abs(1 / 3 / 4 - 1), 9),
            per_second=round(round(abs(1 / 3 / 4 - 1), 9) / 15, 9),
            category=Category.PROGRESSING,
        ),
    )


def test_growth_per_second_is_taken_between_the_middles_of_the_reports() -> None:
    """Intervals whose reports lie 60 s apart grew over 60 s, however long an interval is."""
    categorizer = Categorizer()
    step(categorizer, watch())
    for seconds, value in ((0, 1.0), (10, 1.0), (20, 1.0), (70, 0.4)):
        step(categorizer, loss(value), seconds)
    step(categorizer, loss(0.4), 80)
    (measured, *_) = step(categorizer, loss(0.4), 91)
    assert isinstance(measured.event, GrowthMeasured)
    assert measured.event.growth == 0.6
    assert measured.event.per_second == 0.01


def test_growth_in_no_time_has_no_rate() -> None:
    """Where all reports carry one time, growth is measured and its rate is left open."""
    categorizer = Categorizer()
    step(categorizer, watch())
    for seconds in (5, 5, 4):
        step(categorizer, loss(1.0), seconds)
    (measured,) = step(categorizer, loss(1.0), 60)
    assert isinstance(measured.event, GrowthMeasured)
    assert measured.event.growth == 0.0
    assert measured.event.per_second is None


def test_a_change_and_a_request_repeat_the_growth_that_made_them() -> None:
    """What follows from an interval names its growth, after it was rounded, and goes to the job's pool."""
    categorizer = Categorizer()
    step(categorizer, watch(pool="east", request_tick="same", normalisation=Normalisation.NONE))
    decisions: Sequence[Decision] = ()
    for number, thirds in enumerate((0, 3, 5, 6, 7)):
        decisions = step(categorizer, loss(0.001 / 3 * thirds), 20 + 30 * number)
    growth = round(0.001 / 3, 9)
    assert [decision.pool for decision in decisions] == ["east"] * 3
    assert [decision.event for decision in decisions[1:]] == [
        CategoryChanged(job="a", before=Category.WATCHED, after=Category.CONVERGED, growth=growth),
        ReallocationRequested(job="a", growth=growth, interval=3),
    ]


def test_a_repeated_record_changes_nothing() -> None:
    """A source's records rise; what is not beyond the highest is a repetition, and is counted as one."""
    categorizer = Categorizer()
    step(categorizer, watch(), source="c/1", seq=1)
    step(categorizer, loss(1.0), 0, source="c/1", seq=2)
    step(categorizer, loss(0.5), 1, source="c/1", seq=3)
    before = msgspec.json.encode(categorizer.state.jobs)
    step(categorizer, loss(0.1), 99, source="c/1", seq=3)
    step(categorizer, loss(0.1), 99, source="c/1", seq=2)
    step(categorizer, JobUnwatched(job="a"), 99, source="c/1", seq=1)
    assert msgspec.json.encode(categorizer.state.jobs) == before
    assert ignored(categorizer) == {"repeated": 3}


def test_each_source_has_its_own_sequence_for_each_job() -> None:
    """A collector that starts again counts from the beginning under another name; numbers rise as numbers, not text."""
    categorizer = Categorizer()
    step(categorizer, watch("a"), source="c/1", seq=9)
    step(categorizer, watch("b"), source="c/1", seq=1)
    step(categorizer, watch("a", incarnation=2), source="c/1", seq=10)
    step(categorizer, watch("a", incarnation=3), source="c/2", seq=0)
    assert categorizer.state.jobs["a"].incarnation == 3
    assert categorizer.state.jobs["b"].sequences == {"c/1": 1}
    assert not ignored(categorizer)


@pytest.mark.parametrize("seq", ["", "one", "1.5", "9" * 5000, "9" * 19, "-1", None])
def test_a_source_without_a_readable_sequence_is_not_believed(seq: str | None) -> None:
    """Its records could be repetitions, so they are counted and change nothing, also where the job is new."""
    categorizer = Categorizer()
    step(categorizer, watch("new"), source="c/1", seq=seq)
    step(categorizer, watch("a"))
    step(categorizer, loss(1.0), source="c/1", seq=seq)
    assert categorizer.state.jobs.keys() == {"a"}
    assert categorizer.state.jobs["a"].intervals is None
    assert ignored(categorizer) == {"unnumbered": 2}


def test_what_is_ignored_is_counted_by_its_reason() -> None:
    """Unknown jobs, stale incarnations and values that no sum can hold each have their count."""
    categorizer = Categorizer()
    step(categorizer, loss(1.0))
    step(categorizer, JobUnwatched(job="a"))
    step(categorizer, watch(incarnation=2))
    step(categorizer, loss(1.0))
    step(categorizer, watch(incarnation=1))
    step(categorizer, LossReported(job="a", incarnation=2, value=-1e300))
    assert categorizer.state.ignored == Ignored(unknown=2, stale=2, oversized=1)


def test_the_largest_values_still_have_a_growth() -> None:
    """A million reports of the greatest magnitude that counts sum to a number, so nothing infinite is ever written."""
    assert math.isfinite(1e6 * LARGEST_VALUE)
    categorizer = Categorizer()
    step(categorizer, watch(normalisation=Normalisation.NONE))
    for seconds, value in ((0, LARGEST_VALUE), (10, -LARGEST_VALUE)):
        step(categorizer, loss(value), seconds)
    (measured,) = step(categorizer, loss(0.0), 31)
    assert isinstance(measured.event, GrowthMeasured)
    assert measured.event.growth == 2 * LARGEST_VALUE


def by(metric: str, *losses: float, at_s: int, of: Categorizer) -> list[Any]:
    """What is decided of a job that is judged by this metric from here on, with a report every ten seconds."""
    watched = msgspec.structs.replace(watch(), metric=metric)
    decided = [*step(of, watched, at_s)]
    for number, value in enumerate(losses):
        decided += step(of, msgspec.structs.replace(loss(value), metric=metric), at_s + 10 * number)
    return [one.event for one in decided]


FALLS = [2.0 * 0.9**number for number in range(30)]


def test_another_metric_begins_another_grid() -> None:
    """It is judged as if it were the first one; the first interval says so, and that its category counts no longer."""
    renamed, alone = Categorizer(), Categorizer()
    before = by("total_loss", *(2_000 + 10 / (1 + number) for number in range(30)), at_s=0, of=renamed)
    assert isinstance(before[-1], ReallocationRequested)
    (first, changed, *after) = by("loss", *FALLS, at_s=300, of=renamed)
    (first_alone, *after_alone) = by("loss", *FALLS, at_s=300, of=alone)

    assert first == msgspec.structs.replace(first_alone, metric="loss")
    assert changed == CategoryChanged(
        job="a", before=Category.CONVERGED, after=Category.PROGRESSING, growth=first.growth
    )
    assert after == after_alone


def test_another_metric_before_anything_was_reported_is_no_news() -> None:
    """The log-collector names the metric that a user asked for until it has read another one."""
    renamed, alone = Categorizer(), Categorizer()
    by("anything", at_s=0, of=renamed)

    assert by("loss", *FALLS, at_s=10, of=renamed) == by("loss", *FALLS, at_s=10, of=alone)


def test_the_logs_own_records_say_nothing_of_jobs() -> None:
    """The record that opens a partition is no report of an unknown job."""
    categorizer = Categorizer()
    assert not step(categorizer, LogOpened(epoch="e"))
    assert not ignored(categorizer)


@pytest.mark.parametrize(
    ("growth", "comparison"),
    [(0.009999999, Comparison.BELOW), (0.01, Comparison.EQUAL), (0.010000001, Comparison.ABOVE)],
)
def test_growth_is_compared_with_alpha_to_the_last_decimal(growth: float, comparison: Comparison) -> None:
    """The ninth decimal decides; equal is neither below nor above."""
    assert compare(growth, 0.01) is comparison
    assert compare(growth, 0.01, before=1.0) is comparison


@pytest.mark.parametrize(
    ("growth", "before", "comparison"),
    [
        (0.004999999, 0.005, Comparison.BELOW),
        (0.005, 0.005, Comparison.BOUNCED),
        (0.006, 0.005, Comparison.BOUNCED),
        (0.006, 0.0, Comparison.BOUNCED),
        (0.0, 0.0, Comparison.BELOW),
        (0.01, 0.005, Comparison.EQUAL),
        (0.02, 0.03, Comparison.ABOVE),
    ],
)
def test_growth_below_alpha_must_be_below_the_growth_before(
    growth: float, before: float, comparison: Comparison
) -> None:
    """Else it bounced; two intervals without any growth did not."""
    assert compare(growth, 0.01, before) is comparison


@pytest.mark.parametrize("before", [Category.WATCHED, Category.CONVERGED])
def test_an_illegal_move_names_category_and_growth(before: Category) -> None:
    """A job that was judged has an interval behind it, so it can have no baseline."""
    with pytest.raises(BugError, match=f"{before.value}.*baseline") as caught:
        move(before, Comparison.BASELINE)
    assert caught.value.code == "illegal-category-move"


def test_an_illegal_move_changes_nothing() -> None:
    """The state after the error is the state before the record."""
    categorizer = Categorizer()
    step(categorizer, watch())
    step(categorizer, loss(1.0), 0)
    step(categorizer, loss(1.0), 1)
    categorizer.state.jobs["a"].category = Category.WATCHED  # never happens: the job has no interval behind it
    before = msgspec.json.encode(categorizer.state)
    with pytest.raises(BugError):
        step(categorizer, loss(1.0), 40)
    assert msgspec.json.encode(categorizer.state) == before


def test_the_moves_in_the_docstring_are_those_of_the_table() -> None:
    """Who reads the theory reads the table: the listing is the table, line by line."""
    table = [
        f"    {before.value} {comparison.value} {after.value}"
        for before, moves in MOVES.items()
        for comparison, after in moves.items()
    ]
    assert category_machine.__doc__ is not None
    assert category_machine.__doc__.split("::\n\n")[1].rstrip().splitlines() == table


def calls(others: int) -> int:
    """How many functions, Python's and C's, the record that makes a job converge calls beside so many other jobs."""
    categorizer = Categorizer()
    for number in range(others):
        step(categorizer, watch(f"other-{number}"))
        step(categorizer, loss(1.0, f"other-{number}"))
    step(categorizer, watch())
    for seconds in (0, 20, 50, 80):
        step(categorizer, loss(1.0), seconds)
    record: Received[Any] = Received(event=loss(1.0), topic="loss", partition=0, offset=0, at_ms=110_000)
    called, decisions = count_calls(lambda: categorizer.step(record))
    assert len(decisions) == 2
    return called


def test_work_for_a_record_does_not_grow_with_the_jobs() -> None:
    """No record makes the categorizer look at another job: it calls as many functions among many jobs as alone."""
    assert calls(others=1_000) == calls(others=0) > 0
