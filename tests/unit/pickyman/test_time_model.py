"""The time of an epoch from four profiled jobs, and what is said of jobs that are not like them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.policies.pickyman.time_model import TrainingSetting, fit

SETTINGS = (
    TrainingSetting(1e8, 32, 1),
    TrainingSetting(2e8, 64, 1),
    TrainingSetting(2e8, 128, 2),
    TrainingSetting(4e8, 64, 4),
)
"""Four profiled jobs that tell the four parameters apart."""

THETA = st.tuples(st.floats(0, 1e4), st.floats(0, 1e-4), st.floats(0, 1e-3), st.floats(0, 1e-4)).filter(
    lambda theta: theta[0] + 1e8 * theta[1] > 100
)


def time_ms(theta: tuple[float, ...], setting: TrainingSetting) -> float:
    """The model as it is written down."""
    data, batch, workers = setting.data, setting.batch, setting.workers
    return theta[0] + theta[1] * data / workers + theta[2] * data / batch + theta[3] * data * (workers - 1) / batch


@given(THETA, st.sampled_from([1, 2, 3, 4]), st.floats(1e8, 4e8), st.floats(32, 128))
def test_four_jobs_predict_others_of_the_same_model(
    theta: tuple[float, ...], workers: int, data: float, batch: float
) -> None:
    """Where jobs take what the model says, a fifth one is predicted to a thousandth."""
    model = fit([(setting, time_ms(theta, setting)) for setting in SETTINGS])
    assert model is not None
    other = TrainingSetting(data, batch, workers)
    assert model.epoch_ms(other) == pytest.approx(time_ms(theta, other), rel=1e-3)


@given(st.lists(st.tuples(st.sampled_from(SETTINGS), st.floats(1, 1e7)), min_size=1, max_size=12))
def test_no_parameter_is_negative_and_no_epoch_takes_no_time(measured: list[tuple[TrainingSetting, float]]) -> None:
    """Also where what was measured contradicts itself."""
    model = fit(measured)
    assert model is not None
    assert all(one >= 0 for one in model.theta)
    assert 0 < model.relative_error(TrainingSetting(1e12, 1, 64)) < 1
    assert all(model.epoch_ms(setting) > 0 for setting, _ in measured)


def test_far_from_the_profiled_jobs_less_is_sure() -> None:
    """A data set ten times as large as any that was seen."""
    model = fit([(setting, time_ms((100, 1e-5, 1e-4, 0), setting)) for setting in SETTINGS])
    assert model is not None
    near, far = TrainingSetting(3e8, 64, 2), TrainingSetting(4e9, 64, 2)
    assert model.relative_error(far) > model.relative_error(near) == pytest.approx(0.1)


def test_nothing_is_fitted_to_nothing() -> None:
    """No job was profiled, or its epochs took no time."""
    assert fit([]) is None
    assert fit([(SETTINGS[0], 0.0)]) is None
