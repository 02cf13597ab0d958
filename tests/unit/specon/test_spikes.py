"""What one report far beyond all others does to a job's categories, as published and in a pool of today."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sim.samples import real_data

from steepest.events.facts import LogOpened
from steepest.events.growth import GrowthMeasured
from steepest.events.loss import JobWatched, LossEvent, LossReported
from steepest.events.parameters import Normalisation, SpeConParameters
from steepest.events.received import Received
from steepest.events.registry import encode
from steepest.policies.specon.categorizer import Categorizer
from steepest.policies.specon.growth import LARGEST_VALUE, LASTS, SPIKE
from tools.real_curves import algoperf_curves, pollux_curves, taskset_curves

PER_INTERVAL = 6
MAX, SETTLED = Normalisation.MAX, Normalisation.SETTLED
DATA = real_data() or Path()


def judged(
    losses: Sequence[float], normalisation: Normalisation, per_interval: int = PER_INTERVAL
) -> list[GrowthMeasured]:
    """Each interval of a job with these losses, so many in each."""
    categorizer, found = Categorizer(), []
    watched = JobWatched(
        job="a",
        pool="p",
        incarnation=1,
        metric="loss",
        parameters=SpeConParameters(normalisation=normalisation),
    )
    events: list[LossEvent] = [watched, *(LossReported(job="a", incarnation=1, value=value) for value in losses)]
    for number, event in enumerate(events, -1):
        received: Received[LossEvent | LogOpened] = Received(
            event=event, topic="loss", partition=0, offset=0, at_ms=number * 30_000 // per_interval
        )
        for decision in categorizer.step(received):
            encode(decision.event)  # nothing infinite may stand in the log
            if isinstance(decision.event, GrowthMeasured):
                found.append(decision.event)
    return found


def categories(losses: Sequence[float], normalisation: Normalisation, per_interval: int = PER_INTERVAL) -> str:
    """The category after each interval, a letter each."""
    return "".join(one.category.value[0] for one in judged(losses, normalisation, per_interval))


LEARNS = [2.0 * 0.99**step for step in range(120)]


@pytest.mark.parametrize("at", [0, 1, 3, 6, 7, 30, 95])
@pytest.mark.parametrize("height", [300.0, 1e6, -1e6, LARGEST_VALUE])
def test_a_spike_is_forgotten(at: int, height: float) -> None:
    """Two intervals later the job is judged as without it; as published it has converged for good."""
    spiked = [*LEARNS[:at], height, *LEARNS[at + 1 :]]
    over = at // PER_INTERVAL + 3

    assert categories(spiked, SETTLED)[over:] == categories(LEARNS, SETTLED)[over:]
    assert categories([*spiked, *LEARNS], MAX)[-1] == "C"


def test_a_spike_may_last_for_some_intervals() -> None:
    """A running mean over an epoch comes down slowly, and falls back with the next epoch."""
    epoch = [1e6 / (1 + step) for step in range((LASTS - 1) * PER_INTERVAL)]
    spiked = [*LEARNS[:30], *epoch, *LEARNS[30:]]
    calm = len(LEARNS[30:]) // PER_INTERVAL - 2

    assert categories(spiked, SETTLED)[-calm:] == categories(LEARNS, SETTLED)[-calm:]


def test_what_lasts_is_no_spike() -> None:
    """An accuracy that was next to nothing at first, and stays far beyond that, is compared with what it has come to."""
    grows = [0.001, *(0.7 * (1 - 0.9**step) for step in range(1, 240))]

    assert categories(grows, SETTLED)[LASTS + 1 :] == categories(grows, MAX)[LASTS + 1 :]
    assert categories(grows, SETTLED)[-1] == "C"


@given(st.lists(st.floats(1.0, SPIKE).map(lambda value: value / 3), min_size=2, max_size=200), st.integers(1, 8))
def test_without_a_spike_nothing_changes(losses: list[float], per_interval: int) -> None:
    """Whatever the values, as long as none is beyond ``SPIKE`` times another one."""
    assert judged(losses, SETTLED, per_interval) == judged(losses, MAX, per_interval)


@given(st.lists(st.floats(-LARGEST_VALUE, LARGEST_VALUE) | st.sampled_from([0.0, 5e-324, 1e-300, 1e290]), max_size=60))
def test_no_values_make_a_number_that_is_not_finite(losses: list[float]) -> None:
    """A hostile job may print anything; each decision can be written."""
    for normalisation in Normalisation:
        for one in judged(losses, normalisation, 2):
            assert one.growth is not None
            assert math.isfinite(one.growth + one.largest)


def curves() -> list[Sequence[float]]:
    """The losses of all real runs."""
    found = [*algoperf_curves(DATA / "algoperf-curves.jsonl.gz")]
    for path in sorted((DATA / "taskset").glob("*.json.gz")):
        found += taskset_curves(path)
    found += pollux_curves(DATA / "pollux" / "traces")
    return [curve.points.losses for curve in found]


@pytest.mark.skipif(not (DATA / "taskset").is_dir(), reason="no real curves: set STEEPEST_DATA to a folder with them")
def test_real_runs_keep_their_categories() -> None:
    """But for those few in which a loss is far beyond all before it, or falls to a hundredth at once."""
    differ, runs = 0, curves()
    for losses in runs:
        for per_interval in (1, 4, max(1, len(losses) // 100)):
            if categories(losses, MAX, per_interval) != categories(losses, SETTLED, per_interval):
                differ += 1
                assert has_spike([abs(loss) for loss in losses]), losses
    assert len(runs) > 900
    assert differ <= 0.005 * 3 * len(runs)


def has_spike(losses: Sequence[float]) -> bool:
    """Whether one is far beyond all before it, or the first one far beyond the next."""
    most = losses[0]
    for loss in losses[1:]:
        if loss > SPIKE * most > 0:
            return True
        most = max(most, loss)
    return any(first > SPIKE * after for first, after in pairwise(losses[:3]))
