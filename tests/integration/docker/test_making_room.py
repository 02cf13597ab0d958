"""Containers on a real engine whose CPU is reserved: a short job need not wait."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.harness.docker_harness import why_not
from tests.harness.system.running_system import RunningSystem
from tests.integration import steady_training
from tests.integration.making_room import a_short_job_gets_the_place_of_the_last_in_line

import steepest_sdk
from steepest_lab.reproduce.testbed.node import node
from steepest_lab.reproduce.testbed.nodes import CPU_M


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_short_job_gets_the_place_of_the_last_in_line(tmp_path: Path) -> None:
    """Jobs that reserve a quarter of the engine each."""
    if why := why_not():
        pytest.skip(why)
    shutil.copy(str(steady_training.__file__), tmp_path)
    shutil.copytree(Path(steepest_sdk.__file__).parent, tmp_path / "steepest_sdk")
    with node() as engine:
        system = RunningSystem(
            tmp_path / "state",
            *("--cluster", f"docker={engine.url}", "--node", f"held={CPU_M}m", "--folder", str(tmp_path)),
            *("--policy", "steepest", "--min-run", "5s"),
        )
        try:
            system.start()
            options = ("--workdir", str(tmp_path), "--cpu", f"{CPU_M // 4}m")
            a_short_job_gets_the_place_of_the_last_in_line(system, ("python3", "steady_training.py"), options)
        finally:
            system.end()
