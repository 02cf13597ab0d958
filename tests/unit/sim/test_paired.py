"""The interval around a mean change is Student's, and says nothing where a figure is unknown."""

from __future__ import annotations

import statistics

import pytest

from steepest_lab.sim.estimate import half_width, t_quantile
from steepest_lab.sim.paired import paired_changes
from steepest_lab.sim.result import JobResult, SimulationResult, Summary


@pytest.mark.parametrize("freedom", [*range(1, 31), 99, 100, 1_000])
def test_the_quantile_is_students(freedom: int) -> None:
    """With any degrees of freedom."""
    special = pytest.importorskip("scipy.special", reason="pip install 'steepest-lab[reports]'")
    assert t_quantile(freedom) == pytest.approx(special.stdtrit(freedom, 0.975), rel=1e-9)


def test_an_interval_is_as_wide_as_the_values_differ() -> None:
    """Of one value nothing is known; of equal ones all."""
    assert half_width([0.3]) is None
    assert half_width([0.3, 0.3, 0.3]) == 0.0
    values = [-0.28, -0.31, -0.22, -0.25]
    assert half_width(values) == pytest.approx(3.18245 * statistics.stdev(values) / 2, rel=1e-5)


def summed_up(*ends_s: float | None, beside: tuple[float | None, ...]) -> Summary:
    """A run whose jobs were submitted at 0 and ended so, or did not, beside another one."""
    ours, theirs = (
        SimulationResult(
            policy=policy,
            seed=0,
            jobs=[
                JobResult(name=str(number), submit_s=0.0, start_s=0.0, end_s=end_s, learned_s=end_s and end_s / 2)
                for number, end_s in enumerate(ends)
            ],
            used=1.0,
            capacity=1.0,
            events=1,
            wall_seconds=0.1,
        )
        for policy, ends in (("ours", ends_s), ("theirs", beside))
    )
    return ours.summary(theirs)


def test_changes_are_paired() -> None:
    """A workload that takes ten times as long under one seed counts no more; the most delayed job is that of any seed."""
    runs = [summed_up(8.0, 18.0, beside=(10.0, 20.0)), summed_up(80.0, 300.0, beside=(100.0, 200.0))]
    changes = paired_changes(runs, "theirs")

    assert (changes.policy, changes.against, changes.seeds) == ("ours", "theirs", 2)
    assert changes.mean_jct is not None
    assert changes.mean_jct.mean == pytest.approx((26 / 30 - 1 + 380 / 300 - 1) / 2)
    assert changes.makespan is not None
    assert changes.makespan.mean == pytest.approx((-0.1 + 0.5) / 2)
    assert changes.mean_t90 == changes.mean_jct
    assert changes.left_out == 0
    assert (changes.late_share, changes.late_worst) == (0.25, 0.5)


def test_means_are_compared_over_the_jobs_that_finished_in_both_runs() -> None:
    """Others are counted and left out, also where as many finished in each."""
    one = summed_up(8.0, None, 50.0, None, beside=(10.0, 20.0, None, None))

    assert (one.finished, one.left_out) == (2, 3)
    assert one.mean_jct == 29.0
    for change in (one.mean_jct_change, one.median_jct_change, one.makespan_change, one.mean_t90_change):
        assert change == pytest.approx(-0.2)
    assert one.late_share == 0.0
    assert one.late_worst == pytest.approx(-0.2)


def test_a_figure_that_one_seed_lacks_has_no_change() -> None:
    """Under one of the seeds no job finished in both runs."""
    whole, cut = summed_up(8.0, 18.0, beside=(10.0, 20.0)), summed_up(8.0, None, beside=(None, 20.0))
    assert (cut.left_out, cut.mean_jct_change, cut.makespan_change, cut.late_share) == (2, None, None, None)
    changes = paired_changes([whole, cut], "theirs")
    assert (changes.mean_jct, changes.left_out) == (None, 2)
