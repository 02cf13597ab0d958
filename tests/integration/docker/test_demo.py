"""The demo on engines of its own: real trainings in containers, to the end, and no engine, container or folder left."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.harness.docker_harness import why_not
from tests.harness.system.running_system import STEEPEST


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A temporary folder of its own, with a short name: sockets have no long ones."""
    with tempfile.TemporaryDirectory(prefix="demo-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.mark.end_to_end
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_demo_runs_in_containers(tmp_path: Path, temporary: Path) -> None:
    """Every job finishes on a node that is an engine, under limits; what was started is gone afterwards."""
    if why := why_not():
        pytest.skip(why)
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
    assert (figures["jobs"], figures["finished"]) == (4, 4)
    assert [node["engine"].startswith(f"unix://{temporary}/") for node in installation["nodes"]] == [True] * 4
    assert list((tmp_path / "state" / "cluster" / "jobs").glob("*/*/*/container.json"))
    left = [
        process.info["name"]
        for process in psutil.process_iter(["name", "cmdline"])
        if str(temporary) in str(process.info)
    ]
    assert [name for name in left if name != "rm"] == []
