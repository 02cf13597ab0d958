"""The readers on the published traces: counts and totals that are known of them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from steepest_lab.sim.workload import Workload
from steepest_lab.sim.workloads.read import read_workload

from .samples import real_data

DATA = real_data() or Path()

pytestmark = pytest.mark.skipif(
    real_data() is None,
    reason="no real traces: set STEEPEST_DATA to a folder that holds muri/, pollux/, gavel/, openb/",
)


def gpu_seconds(workload: Workload) -> float:
    """The work of all jobs times their GPUs."""
    return math.fsum(job.gpus * job.work_s for job in workload.jobs)


def test_muri_trace3() -> None:
    """992 jobs; with the peer's own factor of 1.015, 4.26383·10⁸ GPU-seconds and a mean work of 47,567.6 s."""
    workload = read_workload(DATA / "muri" / "trace3.csv")
    work_s = math.fsum(job.work_s for job in workload.jobs)

    assert (workload.format, len(workload.jobs)) == ("muri", 992)
    assert (workload.jobs[0].submit_s, workload.jobs[-1].submit_s) == (0.0, 8_166_025.0)
    assert gpu_seconds(workload) * 1.015 == pytest.approx(4.26383e8, rel=1e-5)
    assert work_s / 992 * 1.015 == pytest.approx(47_567.6, abs=0.05)
    assert {job.gpus for job in workload.jobs} == {1, 2, 4, 8, 16, 32}
    # Of a table of single jobs; the work stands in it with the factor.
    known = {"job-0": 941_386.664, "job-250": 228_937.168, "job-700": 29_481.310}
    found = {job.name: job.work_s * 1.015 for job in workload.jobs if job.name in known}
    assert found == pytest.approx(known, abs=1e-3)


def test_muri_trace3_with_all_jobs_at_once() -> None:
    """The same jobs, submitted at 0, in the file's order."""
    jobs = read_workload(DATA / "muri" / "trace3_pr.csv").jobs

    assert {job.submit_s for job in jobs} == {0.0}
    assert [job.name for job in jobs] == [f"job-{number}" for number in range(992)]


@pytest.mark.parametrize(("folder", "jobs"), [("workloads-0.5", 80), ("workloads", 160), ("workloads-2.0", 320)])
def test_pollux_workloads(folder: str, jobs: int) -> None:
    """80 to 320 jobs within eight hours."""
    for number in range(1, 5):
        workload = read_workload(DATA / "pollux" / folder / f"workload-{number}.csv")
        assert (workload.format, len(workload.jobs)) == ("pollux", jobs)
        assert 0 <= workload.jobs[0].submit_s <= workload.jobs[-1].submit_s <= 8 * 3_600


def test_philly() -> None:
    """82,247 jobs, of which 93 % have one GPU; durations with p50 1,144 s, p90 11,266 s, p99 254,884 s."""
    workload = read_workload(DATA / "pollux" / "traces" / "philly.csv.gz")
    durations = sorted(job.work_s for job in workload.jobs)

    assert (workload.format, len(workload.jobs), workload.skipped) == ("philly", 82_247, {})
    assert [round(durations[int(len(durations) * q)]) for q in (0.5, 0.9, 0.99)] == pytest.approx(
        [1_144, 11_266, 254_884], rel=1e-3
    )
    assert sum(job.gpus == 1 for job in workload.jobs) == 76_627
    assert gpu_seconds(workload) == 3_521_082_502.0
    assert (workload.jobs[0].submit_s, workload.jobs[-1].submit_s) == (0.0, 9_408_690.0)


def test_openb() -> None:
    """8,152 pods, of which 897 were pending to the end."""
    workload = read_workload(DATA / "openb" / "openb_pod_list_default.csv")

    assert workload.format == "openb"
    assert len(workload.jobs) == 8_152 - 897
    assert workload.skipped == {"was never scheduled": 897}


@pytest.mark.parametrize(("name", "jobs", "last_s"), [("max_min_fairness", 96, 46_317), ("minimize_makespan", 100, 0)])
def test_gavel(name: str, jobs: int, last_s: float) -> None:
    """The throughputs are found two folders above, where the repository has them."""
    workload = read_workload(DATA / "gavel" / "traces" / "physical_cluster" / f"{name}.trace")

    assert (workload.format, len(workload.jobs), workload.jobs[-1].submit_s) == ("gavel", jobs, last_s)


@pytest.mark.parametrize(("count", "last_s"), [(120, 5_011.0), (220, 5_956.0)])
def test_shockwave(count: int, last_s: float) -> None:
    """Its lines have two cells more than Gavel's, and say how long a job runs alone, so that no throughputs are needed."""
    workload = read_workload(DATA / "shockwave" / f"{count}_dynamic.trace")

    assert (workload.format, len(workload.jobs), workload.jobs[-1].submit_s) == ("shockwave", count, last_s)
