"""What holds for the categorizer on every log of reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from steepest.events.cluster import Category, CategoryChanged, FindingEnded, FindingOpened, GrowthMeasured
from steepest.events.loss import JobUnwatched, JobWatched, LossDiverged, LossReported
from steepest.events.parameters import Normalisation, RequestTick, SpeConParameters
from steepest.events.received import Received
from steepest.policies.decider import Decision
from steepest.policies.specon.categorizer import Categorizer, CategorizerState
from steepest.policies.specon.growth import BACK_INTERVALS

JOBS = st.sampled_from(["a", "b", "c"])
INCARNATIONS = st.integers(1, 3)
VALUES = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0, 0.99, 0.5])
PARAMETERS = st.builds(
    SpeConParameters,
    alpha=st.sampled_from([0.01, 0.05, 0.5]),
    interval_ms=st.sampled_from([1_000, 30_000]),
    normalisation=st.sampled_from(Normalisation),
    request_tick=st.sampled_from(RequestTick),
)
EVENTS = st.one_of(
    st.builds(LossReported, job=JOBS, incarnation=INCARNATIONS, value=VALUES, metric=st.just("loss")),
    st.builds(LossReported, job=JOBS, incarnation=INCARNATIONS, value=VALUES),
    st.builds(LossDiverged, job=JOBS, incarnation=INCARNATIONS, value=st.just("nan")),
    st.builds(
        JobWatched,
        job=JOBS,
        pool=st.just("pool"),
        incarnation=INCARNATIONS,
        metric=st.just("loss"),
        parameters=PARAMETERS,
    ),
    st.builds(JobUnwatched, job=JOBS),
)
TIMED = st.tuples(EVENTS, st.integers(-5_000, 40_000))


def received(events: Sequence[tuple[Any, int]], *, source: str = "collector/1") -> list[Received[Any]]:
    """Records of one source, each some milliseconds after the one before, or before it."""
    records = []
    at_ms = 10_000_000
    for offset, (event, later_ms) in enumerate(events):
        at_ms += later_ms
        headers = {"source": source, "seq": str(offset)}
        records.append(Received(event=event, topic="loss", partition=0, offset=offset, at_ms=at_ms, headers=headers))
    return records


def watched_first(events: Sequence[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """The same events after all three jobs were watched, so that reports count."""
    watches = [
        JobWatched(job=job, pool="pool", incarnation=1, metric="loss", parameters=SpeConParameters())
        for job in ("a", "b", "c")
    ]
    return [*((watch, 0) for watch in watches), *events]


def fold(categorizer: Categorizer, records: Sequence[Received[Any]]) -> list[Decision]:
    """All that follows from the records."""
    return [decision for record in records for decision in categorizer.step(record)]


@given(st.lists(TIMED, max_size=60), st.integers(0, 63))
def test_a_snapshot_and_the_tail_equal_the_whole_log(events: list[tuple[Any, int]], cut: int) -> None:
    """Going on from an encoded state decides and remembers what an uninterrupted fold does."""
    records = received(watched_first(events))
    whole = Categorizer()
    decided = fold(whole, records)
    head = Categorizer()
    before = fold(head, records[:cut])
    snapshot = msgspec.json.encode(head.state)
    tail = Categorizer(msgspec.json.decode(snapshot, type=CategorizerState))
    assert before + fold(tail, records[cut:]) == decided
    assert tail.state == whole.state


@given(st.lists(TIMED, max_size=60), st.integers(1, 63), st.integers(1, 63))
def test_delivering_records_again_changes_no_decision(events: list[tuple[Any, int]], start: int, length: int) -> None:
    """While a job is watched, a stretch of the log that comes a second time yields nothing and leaves the job as it was."""
    records = received(watched_first([(e, ms) for e, ms in events if not isinstance(e, JobUnwatched)]))
    again = [*records[: start + length], *records[start : start + length], *records[start + length :]]
    once, twice = Categorizer(), Categorizer()
    assert fold(twice, again) == fold(once, records)
    assert twice.state.jobs == once.state.jobs


@given(
    st.lists(st.tuples(VALUES, st.integers(1, 40_000)), max_size=60), st.integers(-40, 40), st.sampled_from([1.0, -1.0])
)
def test_the_unit_of_a_loss_changes_no_category_under_max(
    reports: list[tuple[float, int]], exponent: int, sign: float
) -> None:
    """All losses times a power of two, or times −1, which floats hold exactly: the same growths and categories."""
    factor = math.ldexp(sign, exponent)
    assert _growths(reports, factor) == _growths(reports, 1.0)


@given(st.lists(st.tuples(st.floats(-10, 10), st.integers(1, 40_000)), max_size=60), st.floats(0.001, 1000))
def test_any_other_unit_changes_growth_by_rounding_alone(reports: list[tuple[float, int]], factor: float) -> None:
    """Times any constant: growths agree to the last decimals, and categories do, unless a growth is on α's edge."""
    plain, scaled = _growths(reports, 1.0), _growths(reports, factor)
    assert all(abs(ours[1] - theirs[1]) <= 2e-9 for ours, theirs in zip(plain, scaled, strict=True))
    assume(all(abs(growth - 0.01) > 1e-8 for _, growth, _ in plain))
    assert [category for *_, category in plain] == [category for *_, category in scaled]


def _growths(reports: list[tuple[float, int]], factor: float) -> list[tuple[int, float, str]]:
    events = [(LossReported(job="a", incarnation=1, value=value * factor), ms) for value, ms in reports]
    decided = fold(Categorizer(), received(watched_first(events)))
    return [
        (event.interval, event.growth or 0.0, event.category.value)
        for event in (decision.event for decision in decided)
        if isinstance(event, GrowthMeasured)
    ]


@given(st.lists(st.tuples(VALUES | st.floats(0.99, 1.01), st.integers(1, 40_000)), max_size=60))
def test_a_job_converges_only_while_its_growth_falls(reports: list[tuple[float, int]]) -> None:
    """Each step down and each request comes of growth below α that is below the growth before, or of no growth at all."""
    watch = JobWatched(
        job="a",
        pool="pool",
        incarnation=1,
        metric="loss",
        parameters=SpeConParameters(),
    )
    events = [(LossReported(job="a", incarnation=1, value=value), ms) for value, ms in reports]
    growth = before = math.inf
    for decision in fold(Categorizer(), received([(watch, 0), *events])):
        event = decision.event
        if isinstance(event, GrowthMeasured):
            assert event.growth is not None
            before, growth = growth, event.growth
        elif isinstance(event, FindingOpened | FindingEnded):
            continue
        elif not (isinstance(event, CategoryChanged) and event.after is Category.PROGRESSING):
            assert growth < 0.01
            assert growth < before or growth == 0


@given(st.lists(TIMED, max_size=60))
def test_every_number_written_is_finite(events: list[tuple[Any, int]]) -> None:
    """For any input, growth is a number of at least 0, of a bucket that has reports, in an interval that comes later."""
    newest: dict[str, int] = {}
    categorizer = Categorizer()
    for record in received(watched_first(events)):
        if isinstance(record.event, JobUnwatched):
            newest.pop(record.event.job, None)
        for decision in categorizer.step(record):
            if isinstance(event := decision.event, GrowthMeasured):
                assert event.growth is not None
                assert math.isfinite(event.growth)
                assert event.growth >= 0
                assert event.count > 0
                assert event.first_ms <= event.last_ms
                assert event.interval > newest.get(event.job, 0)
                newest[event.job] = event.interval


@given(st.lists(st.integers(-(10**12), 10**12) | st.integers(-100_000, 100_000), min_size=1, max_size=6))
def test_a_job_is_categorized_whatever_its_clock_does(ahead_ms: Sequence[int]) -> None:
    """However far a clock jumps, growth is measured again some intervals later, and no time between two is negative."""
    interval_ms, every_ms, reports = 30_000, 10_000, (BACK_INTERVALS + 2) * 3 + 1
    parameters = SpeConParameters(interval_ms=interval_ms)
    categorizer, now_ms = Categorizer(), 2 * 10**12
    watch = JobWatched(
        job="a",
        pool="pool",
        incarnation=1,
        metric="loss",
        parameters=parameters,
    )
    fold(categorizer, received([(watch, 0)]))
    for wrong_ms in (0, *ahead_ms):
        measured = []
        for number in range(reports):
            now_ms += every_ms
            report = LossReported(job="a", incarnation=1, value=1 / (number + 1))
            at_ms = now_ms + wrong_ms
            made = categorizer.step(Received(event=report, topic="loss", partition=0, offset=0, at_ms=at_ms))
            measured += [one.event for one in made if isinstance(one.event, GrowthMeasured)]
        assert measured
        assert all(one.per_second is None or one.per_second >= 0 for one in measured)
        assert all(one.first_ms <= one.last_ms for one in measured)
