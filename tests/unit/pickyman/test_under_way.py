"""When a resumed job trains again, and how many jobs read at the same time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.events import cluster as c
from steepest.policies.pickyman.under_way import UnderWay, mean_readers


def resumption(step: int | None = 100) -> UnderWay:
    """One that began at 50 s."""
    return UnderWay(plan="p", kind=c.Overhead.RESUMPTION, incarnation=2, began_ms=50_000, predicted_ms=None, step=step)


@pytest.mark.parametrize(
    ("reports", "trained_ms"),
    [
        ([(51_000, 0), (52_000, 104)], None),
        ([(51_000, 0), (52_000, 104), (53_000, 114)], 51_600),
        ([(51_000, 100), (52_000, 104), (53_000, 104), (54_000, 124)], 51_600),
        ([(51_000, 0), (52_000, 104), (53_000, 105)], 51_000),
        ([(52_000, 104), (53_000, 114)], 51_600),
        ([(52_000, 10**15), (53_000, 10**15 + 1)], 50_000),
        ([(52_000, 104), (52_000, 114)], 52_000),
    ],
    ids=[
        "one report",
        "pace",
        "no further step meanwhile",
        "not before a report",
        "no report before",
        "lies",
        "one time",
    ],
)
def test_when_a_resumed_job_began_its_first_step(reports: list[tuple[int, int]], trained_ms: int | None) -> None:
    """Four steps before the first report of one, by the pace until the next."""
    running = resumption()

    assert [running.trained_from(step, at_ms) for at_ms, step in reports][-1] == trained_ms


@pytest.mark.parametrize(
    ("reports", "trained_ms"),
    [
        ([(52_000, None, 40), (53_000, None, 80), (54_000, 101, 110)], 53_500),
        ([(52_000, None, 40), (53_000, None, 80), (54_000, None, 110)], None),
        ([(52_000, None, 40), (53_000, None, 80), (54_000, None, 110), (55_000, 101, 120)], 54_000),
        ([(52_000, 101, 40), (53_000, 111, 80), (54_000, 121, 110)], 53_500),
        ([(52_000, 101, 40), (53_000, 111, 80)], None),
        ([(52_000, None, 40), (53_000, 101, 110)], 53_000),
        ([(52_000, 101, 110)], 52_000),
        ([(52_000, None, 80), (53_000, None, 80), (54_000, 101, 110)], 54_000),
    ],
    ids=[
        "by the rate before",
        "no step yet",
        "a step that comes later",
        "steps that come too early",
        "not yet loaded",
        "one count before, by the rate since the start",
        "no count before",
        "no rate",
    ],
)
def test_where_bytes_are_counted_they_say_when_it_had_loaded(
    reports: list[tuple[int, int | None, int]], trained_ms: int | None
) -> None:
    """It reads 100 bytes before its first step, which it reports some time after: none of it is believed before that."""
    running = resumption()

    assert [running.trained_from(step, at_ms, (read, 100)) for at_ms, step, read in reports][-1] == trained_ms


@given(
    st.lists(st.tuples(st.integers(0, 5_000), st.none() | st.integers(0, 2**60), st.integers(0, 200)), max_size=8),
    st.none() | st.integers(0, 500),
    st.booleans(),
)
def test_it_is_within_the_reports(
    reports: list[tuple[int, int | None, int]],
    step: int | None,
    counted: bool,  # noqa: FBT001 - hypothesis gives it
) -> None:
    """Any steps that a job reports: it trained not before the resumption began, and not after the newest report."""
    running, at_ms = resumption(step), 50_000
    for later_ms, reported, read in reports:
        at_ms += later_ms
        trained_ms = running.trained_from(reported, at_ms, (read, 100) if counted else None)
        if trained_ms is not None:
            assert running.began_ms <= trained_ms <= at_ms
            break


@pytest.mark.parametrize(
    ("spans", "readers"),
    [
        ([], 1),
        ([(0, 100)], 2),
        ([(40, 100)], 2),
        ([(70, 130)], 1),
        ([(0, 30), (70, 90), (95, 200)], 2),
        ([(0, 200)] * 3, 4),
        ([(80, 20)], 1),
    ],
)
def test_readers_count_by_the_time_that_they_share(spans: list[tuple[int, int]], readers: int) -> None:
    """Of a span from 0 to 100."""
    assert mean_readers(spans, 0, 100) == readers


def test_a_span_without_length_has_one_reader() -> None:
    """As two records of one time have."""
    assert mean_readers([(0, 100)], 50, 50) == 1
