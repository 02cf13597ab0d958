"""Real processes on emulated nodes: a gang is limited beside a short job, each of its processes, and no step is lost."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.harness.system.running_system import RunningSystem
from tests.integration import steady_training

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.received import Received

GANG, SHORT = "together", "short"
TRAINING = (sys.executable, "-m", "steepest_lab.jobs.parallel", "--steps", "300", "--seed", "4")


@pytest.mark.timeout(180)
def test_a_gang_is_limited_for_a_short_job(tmp_path: Path) -> None:
    """Two processes on two nodes have the same limit, which is gone when nothing else wants the CPU; both jobs end."""
    system = RunningSystem(
        tmp_path / "state", "--policy", "steepest", "--heartbeat", "250ms", "--node", "n1=0.6", "--node", "n2=0.6"
    )
    try:
        system.start()
        system.submit(GANG, *TRAINING, options=("--replicas", "2", "--cpu", "0.4"))
        system.await_event(lambda found: isinstance(found.event, c.CheckpointModeDeclared) or None)
        system.submit(SHORT, sys.executable, str(steady_training.__file__), "60", options=("--cpu", "0.1"))
        folders = AdapterFolder(system.state / "cluster")
        files = [folders.incarnation(ReplicaId(GANG, index), 1).limit for index in range(2)]
        system.await_event(lambda found: _in_force(found, files))
        ends = [system.await_end(job).outcome for job in (SHORT, GANG)]

        assert ends == [c.Outcome.FINISHED] * 2
        assert system.breaches() == []
    finally:
        system.end()


def _in_force(found: Received[c.ClusterEvent], files: Sequence[Path]) -> bool | None:
    """Whether both processes have the limit that an event says."""
    event = found.event
    if not isinstance(event, c.LimitsApplied) or event.job != GANG or event.cpu_m is None:
        return None
    limits = [msgspec.json.decode(file.read_bytes())["cpu_limit_m"] for file in files if file.exists()]
    return limits == [event.cpu_m] * len(files) or None
