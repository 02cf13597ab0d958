"""The demo on engines of its own: real trainings in containers, to the end, and no engine, container or folder left."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import psutil
import pytest

from steepest.testing.docker_harness import why_not
from steepest.testing.running_system import STEEPEST


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_demo_runs_in_containers(tmp_path: Path) -> None:
    """Every job finishes on a node that is an engine, under limits; what was started is gone afterwards."""
    if why := why_not():
        pytest.skip(why)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    options = ("--jobs", "4", "--length", "0.1", "--policy", "specon+flowcon", "--cluster", "docker", "--json")
    done = subprocess.run(
        [*STEEPEST, "demo", "--state", str(tmp_path / "state"), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    assert done.returncode == 0, done.stderr

    figures = json.loads(done.stdout)
    installation = json.loads((tmp_path / "state" / "steepest.json").read_bytes())
    assert [job["outcome"] for job in figures["jobs"]] == ["finished"] * 4
    assert [node["engine"].startswith(f"unix://{temporary}/") for node in installation["nodes"]] == [True] * 4
    assert list((tmp_path / "state" / "cluster" / "jobs").glob("*/*/*/container.json"))
    assert [process for process in psutil.process_iter(["cmdline"]) if str(temporary) in str(process.info)] == []
