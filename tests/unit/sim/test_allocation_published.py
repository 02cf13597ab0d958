"""Steepest's policies reproduce two peers' published figures for public traces, to the last digit."""

from __future__ import annotations

from pathlib import Path

import pytest

from steepest_lab.sim.allocation.simulate import simulate_allocation
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.rules import MURI, POLLUX
from steepest_lab.sim.workloads.read import read_workload

from .samples import real_data

DATA = real_data()
absent = pytest.mark.skipif(
    DATA is None, reason="no real traces: set STEEPEST_DATA to a folder that holds muri/ and pollux/"
)


def muri(trace: str, policy: str) -> SimulationResult:
    """Muri's simulator on one of its traces."""
    workload = read_workload((DATA or Path()) / "muri" / f"{trace}.csv")
    return simulate_allocation(workload, open_cluster("8x8gpu"), policy, MURI, 0)


@absent
@pytest.mark.parametrize(
    ("trace", "policy", "mean_jct", "makespan"),
    [
        ("trace3", "tiresias", 347_213.248, 8_174_226.280),
        ("trace3", "srtf", 193_081.796, 8_174_135.280),
        ("trace3", "srsf", 185_021.880, 8_174_135.280),
        ("trace3_pr", "tiresias", 2_213_110.128, 6_761_641.420),
        ("trace3_pr", "srtf", 844_394.780, 7_261_795.828),
        ("trace3_pr", "srsf", 798_057.683, 6_907_790.403),
    ],
)
def test_muri(trace: str, policy: str, mean_jct: float, makespan: float) -> None:
    """Average completion time and makespan as Muri's ``calc.py`` prints them (4e69a78c, ``n8g8.csv``)."""
    summary = muri(trace, policy).summary()

    assert (round(summary.mean_jct, 3), round(summary.makespan, 3)) == (mean_jct, makespan)
    assert summary.finished == summary.jobs == 992


@absent
@pytest.mark.parametrize(
    ("policy", "ends", "preemptions"),
    [
        ("tiresias", {0: 944_564.1, 4: 512_607.858, 5: 516_944.705, 500: 3_981_042.5, 700: 7_382_802.0}, 1_483),
        ("srtf", {0: 2_384_108.1, 4: 512_600.858, 5: 516_926.705, 500: 3_970_727.0, 700: 5_050_530.3}, 1_049),
        ("srsf", {0: 979_792.8, 4: 512_600.858, 5: 516_926.705, 500: 3_970_727.0, 700: 5_126_369.8}, 813),
    ],
)
def test_muri_job_by_job(policy: str, ends: dict[int, float], preemptions: int) -> None:
    """Single jobs end when they do in Muri's log, and as many are preempted."""
    result = muri("trace3", policy)

    found = {job.name: job.end_s for job in result.jobs}
    assert {number: found[f"job-{number}"] for number in ends} == pytest.approx(ends, abs=0.051)
    assert result.summary().preemptions == preemptions


PUBLISHED = {
    ("workloads", "tiresias"): (2_473.65, 5_144.9625, 3_876.25625, 3_280.2625),
    ("workloads", "optimus"): (4_087.0625, 6_913.875, 3_944.00625, 5_967.75),
    ("workloads-0.5", "tiresias"): (1_450.9375, 2_333.275, 1_869.9, 1_946.7625),
    ("workloads-0.5", "optimus"): (1_309.6875, 3_124.5625, 1_986.8375, 2_173.8625),
    ("workloads-1.5", "tiresias"): (5_520.2917, 6_333.7708, 6_561.9792, 5_577.3208),
    ("workloads-1.5", "optimus"): (7_673.8417, 6_678.1875, 5_683.625, 7_683.7917),
    ("workloads-2.0", "tiresias"): (10_138.175, 8_655.9906, 10_727.8188, 9_664.7281),
    ("workloads-2.0", "optimus"): (10_806.5969, 8_515.3875, 8_363.3563, 10_312.9125),
}


@absent
@pytest.mark.parametrize(
    ("folder", "policy", "number", "mean_jct"),
    [
        pytest.param(*key, number, jct, marks=[] if key[0] == "workloads" else pytest.mark.slow)
        for key, figures in PUBLISHED.items()
        for number, jct in enumerate(figures, 1)
    ],
)
def test_pollux(folder: str, policy: str, number: int, mean_jct: float) -> None:
    """Average completion time as published with the artifact (c793c708, ``results-jobload``), on 16 nodes of 4 GPUs."""
    pytest.importorskip("scipy", reason="pip install 'steepest-lab[reports]'")
    workload = read_workload((DATA or Path()) / "pollux" / folder / f"workload-{number}.csv")

    summary = simulate_allocation(workload, open_cluster("16x4gpu"), policy, POLLUX, 0).summary()

    assert summary.mean_jct == pytest.approx(mean_jct, abs=5e-5)


@absent
@pytest.mark.parametrize(("policy", "makespan", "starts"), [("tiresias", 83_751, 190), ("optimus", 72_422, 1_067)])
def test_pollux_makespan_and_starts(policy: str, makespan: float, starts: int) -> None:
    """The last job ends when it does there, after as many starts and re-allocations."""
    pytest.importorskip("scipy", reason="pip install 'steepest-lab[reports]'")
    workload = read_workload((DATA or Path()) / "pollux" / "workloads" / "workload-1.csv")

    summary = simulate_allocation(workload, open_cluster("16x4gpu"), policy, POLLUX, 0).summary()

    assert summary.makespan == makespan
    assert summary.jobs + summary.preemptions + summary.migrations == starts
