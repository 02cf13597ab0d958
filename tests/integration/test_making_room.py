"""Real processes on an emulated node whose memory is reserved: a short job need not wait."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.harness.system.running_system import RunningSystem
from tests.integration import steady_training
from tests.integration.making_room import a_short_job_gets_the_place_of_the_last_in_line


@pytest.mark.timeout(180)
def test_a_short_job_gets_the_place_of_the_last_in_line(tmp_path: Path) -> None:
    """Jobs of 256 MiB on a node of 1 GiB."""
    system = RunningSystem(tmp_path / "state", "--policy", "steepest", "--node", "n=1:1GiB", "--min-run", "5s")
    try:
        system.start()
        program = (sys.executable, str(steady_training.__file__))
        a_short_job_gets_the_place_of_the_last_in_line(system, program, ("--memory", "256MiB"))
    finally:
        system.end()
