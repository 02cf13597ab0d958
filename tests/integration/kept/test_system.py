"""Unmodified jobs under a whole system: suspended and resumed by their user, and explained where they cannot be saved."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import pytest
from tests.harness.kept_job import ENV, missing, training, unmoved
from tests.harness.system.running_system import RunningSystem
from tests.integration.kept import cases

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.events.received import Received

STEPS, PAUSE_S = 1_000, 0.03
"""It trains on while the system starts again, on a busy machine too."""
SYSTEM = ("--checkpoint", "system", "--cpu", "0.2")
UNSAID = ("--cpu", "0.2")


@pytest.fixture
def system(tmp_path: Path) -> RunningSystem:
    """Two emulated nodes; skipped where no job can be kept."""
    if why := missing(tmp_path / "probe"):
        pytest.skip(why)
    return RunningSystem(
        tmp_path / "state", "--node", "n1=1", "--node", "n2=1", "--heartbeat", "200ms", "--system-checkpoints", env=ENV
    )


@pytest.mark.end_to_end
def test_a_suspended_training_resumes_as_if_nothing_had_happened(system: RunningSystem) -> None:
    """Its image outlives the system that made it, no step is lost or done twice, and the log's invariants hold."""
    command = training(STEPS, PAUSE_S)
    try:
        system.start()
        system.submit("job", *command, options=SYSTEM)
        system.await_event(lambda event: _declared(event, CheckpointMode.SYSTEM))
        system.call("suspend", "job")
        suspended = system.await_event(lambda event: event.event if isinstance(event.event, c.JobSuspended) else None)
        assert suspended.steps_lost == 0
        system.kill()
        system.start()
        system.call("release", "job")
        _check_finished_as_unmoved(system)
    finally:
        system.end()


def _check_finished_as_unmoved(system: RunningSystem) -> None:
    """It finishes, its output is that of a run that nothing moved, and no invariant is broken."""
    assert system.await_end("job").outcome is c.Outcome.FINISHED
    folder = AdapterFolder(system.state / "cluster")
    output = "".join(one.output.read_text() for one in folder.printed(ReplicaId("job")))
    assert output == unmoved(training(STEPS, 0.0))
    assert system.breaches() == []


@pytest.mark.end_to_end
def test_a_suspended_gang_resumes_as_if_nothing_had_happened(system: RunningSystem) -> None:
    """Its replicas, which talk over TCP, are saved by one suspension; each prints what it would have printed."""
    command = (sys.executable, str(Path(__file__).with_name("data_parallel.py")), "300", "0.05")
    try:
        system.start()
        system.submit("job", *command, options=("--replicas", "2", "--cpu", "0.2"))
        system.await_event(lambda event: _declared(event, CheckpointMode.SYSTEM))
        system.call("suspend", "job")
        suspended = system.await_event(lambda event: event.event if isinstance(event.event, c.JobSuspended) else None)
        assert suspended.steps_lost == 0
        system.call("release", "job")
        assert system.await_end("job").outcome is c.Outcome.FINISHED
        folder = AdapterFolder(system.state / "cluster")
        outputs = ["".join(one.output.read_text() for one in folder.printed(ReplicaId("job", k))) for k in (0, 1)]
        assert [output.count("\n") for output in outputs] == [301, 301]
        assert len({output.splitlines()[-1] for output in outputs}) == 1
        assert system.breaches() == []
    finally:
        system.end()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``--kills`` at random moments; every form of a run has the first one."""
    if "seed" in metafunc.fixturenames:
        first = pytest.param(0, marks=pytest.mark.end_to_end)
        metafunc.parametrize("seed", [first, *range(1, metafunc.config.getoption("kills"))])


def test_a_system_that_is_killed_in_a_move_finishes_it(system: RunningSystem, seed: int) -> None:
    """Adapter and services die at any moment of it; the next ones finish it, and no step is lost or done twice."""
    command = training(STEPS, PAUSE_S)
    try:
        system.start()
        system.submit("job", *command, options=UNSAID)
        system.await_event(lambda event: _declared(event, CheckpointMode.SYSTEM))
        since = len(system.events())
        assert system.call("move", "job").returncode == 0
        system.await_event(lambda event: event.event if isinstance(event.event, c.MigrationPlanned) else None, since)
        time.sleep(random.Random(seed).random() * 2.0)
        system.kill()
        system.start()
        _check_finished_as_unmoved(system)
    finally:
        system.end()


@pytest.mark.end_to_end
def test_a_job_that_cannot_be_saved_says_why_and_runs_on(system: RunningSystem, tmp_path: Path) -> None:
    """`explain` names the reason, no plan moves it, and its end is its own."""
    try:
        system.start()
        ring = (sys.executable, str(Path(str(cases.__file__))), "ring")
        system.submit("job", *ring, options=(*SYSTEM, "--workdir", str(tmp_path)))
        reason = system.await_event(lambda event: _declared(event, CheckpointMode.NONE))
        assert reason.startswith("io-uring: ")
        assert reason in system.call("explain", "job").stdout
        (tmp_path / "go").touch()
        assert system.await_end("job").outcome is c.Outcome.FINISHED
        assert system.breaches() == []
    finally:
        system.end()


def _declared(event: Received[c.ClusterEvent], mode: CheckpointMode) -> str | None:
    found = event.event
    if not isinstance(found, c.CheckpointModeDeclared) or found.mode is not mode:
        return None
    return found.reason or "-"
