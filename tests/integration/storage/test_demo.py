"""The demo of PickyMan from outside: long trainings give way to short ones at the end of an epoch, and resume."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.harness.system.running_system import STEEPEST

from steepest_lab.storage.server import found

PATIENCE_S = 500
EPOCH_ENDS = "its epoch ends first"


def steepest(*call: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    return subprocess.run([*STEEPEST, *call], capture_output=True, text=True, check=False, timeout=PATIENCE_S)


@pytest.mark.long
@pytest.mark.timeout(2 * PATIENCE_S)
def test_the_demo_of_pickyman_preempts_and_loses_nothing(tmp_path: Path) -> None:
    """Every job finishes, a victim leaves at the end of its epoch and resumes, and the recording is decided again as it was.

    It runs for as long as the demo does: with shorter trainings, no preemption would save more than it costs.
    """
    if found() is None:
        pytest.skip("no lighttpd; get it with: make storage (apt-get install lighttpd)")
    state = str(tmp_path / "state")
    done = steepest("demo", "--policy", "pickyman", "--json", "--state", state)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)

    assert (figures["jobs"], figures["finished"], figures["steps_lost"]) == (4, 4, 0)
    measured = [one for one in figures["preemptions"] if one["measured_overhead_ms"]]
    assert measured, figures["preemptions"]
    assert all(one["steps_lost"] == 0 for one in measured)
    assert all(one["resumed"] == len(one["victims"]) for one in measured)

    replayed = steepest("replay", state)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr

    stories = {job: explained(state, job) for one in measured for job in one["victims"]}
    assert any(EPOCH_ENDS in sentence for sentences in stories.values() for sentence in sentences), stories


def explained(state: str, job: str) -> list[str]:
    """The sentences of a job's story."""
    done = steepest("explain", job, "--state", state, "--json")
    assert done.returncode == 0, done.stderr
    return [entry["sentence"] for entry in json.loads(done.stdout)["entries"]]
