"""The benchmark of scale, on a few bare nodes: a control plane of its own, its fake kubelets, and both contenders."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.kubernetes import control_plane

from steepest.kubernetes_lab.layout import default_folder

NODES, JOBS = 3, 6
MOST_REQUESTS = 12
"""For each of a few placements: what a service asks once when it starts is among them."""


@pytest.mark.timeout(500)
def test_a_small_benchmark_measures_both(tmp_path: Path) -> None:
    """Every job of both is bound, and every figure of the last line is there."""
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
    assert f"default: {JOBS} of {JOBS} bound" in done.stdout
    assert f"steepest: {JOBS} of {JOBS} bound" in done.stdout
    found = json.loads(done.stdout.splitlines()[-1])

    assert (found["nodes"], found["jobs"]) == (NODES, JOBS)
    assert found["placements_s"] > 0
    assert found["default_s"] > 0
    assert found["decision_running_ms"]["p50"] > 0
    assert 3 <= found["api_requests_per_placement"] <= MOST_REQUESTS
    assert {"placer", "migrator", "log-collector"} <= found["rss_mib"].keys()
    assert all(mib > 0 for mib in found["rss_mib"].values())
