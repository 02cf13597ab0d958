"""The benchmark of scale, on a few bare nodes: its own control planes, fake kubelets, and all contenders that are built."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.kubernetes import control_plane
from benchmarks.kubernetes.coscheduling import Coscheduling
from benchmarks.kubernetes.kueue import Kueue
from benchmarks.kubernetes.run import CONTENDERS

from tools.kubernetes_lab.layout import default_folder

NODES, JOBS = 3, 6
MOST_REQUESTS = 12
"""For each of a few placements: what a service asks once when it starts is among them."""


@pytest.mark.timeout(500)
def test_a_small_benchmark_measures_all(tmp_path: Path) -> None:
    """Every job of each is bound, and every figure of the last line is there; who is not built is left out with a reason."""
    programs = default_folder().programs
    if why := control_plane.missing(programs):
        pytest.skip(f"{why}; get it with: make kubernetes-programs")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.kubernetes.run", "--nodes", str(NODES), "--jobs", str(JOBS)),
            *("--programs", str(programs), "--patience", "200", "--keep", str(tmp_path / "kept")),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=480,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for kind in CONTENDERS:
        if why := kind.missing(programs):
            assert f"{kind.name} is left out: {why}" in done.stdout
        else:
            assert f"{kind.name}: {JOBS} of {JOBS} bound" in done.stdout
            assert found["submission_bound_ms"][kind.name]["p50"] > 0

    assert (found["nodes"], found["jobs"]) == (NODES, JOBS)
    assert found["placements_s"] > 0
    assert found["default_s"] > 0
    assert (found["kueue_s"] is None) == bool(Kueue.missing(programs))
    assert (found["coscheduling_s"] is None) == bool(Coscheduling.missing(programs))
    assert found["decision_running_ms"]["p50"] > 0
    assert 3 <= found["api_requests_per_placement"] <= MOST_REQUESTS
    assert {"placer", "migrator", "log-collector"} <= found["rss_mib"].keys()
    assert all(mib > 0 for mib in found["rss_mib"].values())
