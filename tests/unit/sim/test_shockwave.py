"""Shockwave's benchmark: its simulator's rules by hand, and the published figures of its peers where its data is there."""

from __future__ import annotations

import pytest

from steepest_lab.sim.shockwave.jobs import ProfiledJob, RoundJob, profiles
from steepest_lab.sim.shockwave.peers import Gavel, InOrder, Ours, allox, max_min
from steepest_lab.sim.shockwave.rounds import RoundFigures, RoundPolicy, run_rounds

from .samples import real_data

DATA = real_data()
HAS_DATA = pytest.mark.skipif(
    DATA is None or not (DATA / "shockwave").is_dir(),
    reason="no real traces: set STEEPEST_DATA to a folder that holds shockwave/",
)


def static(number: int, steps: int, gpus: int = 1, submit_s: float = 0.0) -> RoundJob:
    """A job of two steps a second: an epoch has 391 steps of 128 examples."""
    epochs = -(-steps // 391)
    sizes = ((128, epochs, 50_000 / 128 / 2),)
    profile = ProfiledJob(number, "ResNet-18", gpus, submit_s, "static", 128, steps, epochs, steps / 2, sizes)
    return RoundJob(profile)


def shortest() -> RoundPolicy:
    """The shortest remaining time first."""
    return InOrder(lambda job: job.seen_left_s)


def test_a_job_alone_runs_in_rounds_to_its_end() -> None:
    """240 steps a round: 600 steps take two rounds and a half."""
    figures = run_rounds([static(0, 600)], 1, shortest(), 1.5)

    assert figures.makespan == pytest.approx(300)
    assert figures.restarts == 0


def test_a_job_that_comes_back_loses_the_time_of_a_start() -> None:
    """The long one runs, gives way for two rounds to a shorter one that came, and restarts: 20 s are lost."""
    long, short = static(0, 1_200), static(1, 480, submit_s=100)
    figures = run_rounds([long, short], 1, shortest(), 1.5)

    assert short.end_s == pytest.approx(120 + 240 + 20, abs=3)
    assert long.end_s == pytest.approx(600 + 240 + 40, abs=5)
    assert figures.restarts == 1


def test_a_job_that_runs_for_longer_than_its_cap_is_ended() -> None:
    """Its profile says half of what it takes."""
    job = static(0, 2_400)
    job.alone_s = 600.0
    figures = run_rounds([job], 1, shortest(), 1.0)

    assert figures.makespan == pytest.approx(720)


def figures_of(policy: RoundPolicy) -> RoundFigures:
    """The 120 jobs on 32 GPUs."""
    assert DATA is not None
    jobs = [RoundJob(profile) for profile in profiles(DATA / "shockwave" / "profiles_120.jsonl.gz")]
    return run_rounds(jobs, 32, policy, 1.0)


@HAS_DATA
@pytest.mark.parametrize(
    ("policy", "mean", "makespan", "within"),
    [(Gavel(max_min), 11_092, 33_068, 0.01), (Gavel(allox()), 9_802, 32_369, 0.01)],
    ids=["max-min", "allox"],
)
def test_the_peers_have_their_published_figures(
    policy: RoundPolicy, mean: float, makespan: float, within: float
) -> None:
    """Mean completion time and makespan of the published simulation, but for the ties of their solvers."""
    figures = figures_of(policy)

    assert figures.mean == pytest.approx(mean, rel=within)
    assert figures.makespan == pytest.approx(makespan, rel=within)


@HAS_DATA
def test_ours_meets_all_bars_of_the_benchmark_at_once() -> None:
    """With sizes as the peers see them: the best peer's makespan and 3 %, AlloX' mean, ρ of 1.5, and 5 % unfair."""
    figures = figures_of(Ours(lambda job: job.seen_left_s))

    assert figures.makespan <= 1.03 * 24_109
    assert figures.mean <= 9_802
    assert figures.worst <= 1.5
    assert figures.unfair <= 5.0
