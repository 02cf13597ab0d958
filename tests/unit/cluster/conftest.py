"""A local cluster on one emulated node, cleaned up to the last process."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest
from tests.harness.processes import with_command_lines

from steepest.cluster import copy_pace
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.local import LocalCluster, LocalNode
from steepest.events.common import Resources

SetPace = Callable[[int, float, int], None]


@pytest.fixture
def state(tmp_path: Path) -> AdapterFolder:
    """The state folder of the cluster under test."""
    return AdapterFolder(tmp_path / "state")


@pytest.fixture
async def make_cluster(state: AdapterFolder) -> AsyncIterator[Callable[[], LocalCluster]]:
    """Makes an adapter on the state folder; each call a new one, as after a restart."""
    made: list[LocalCluster] = []

    def make() -> LocalCluster:
        nodes = [LocalNode("a", Resources(cpu_m=1000, memory_mib=512))]
        made.append(LocalCluster(state.path, nodes, "test", heartbeat_s=0.1, cpu="duty-cycle"))
        return made[-1]

    yield make
    for process in _processes_of(state.path):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    for cluster in made:
        await cluster.close()


@pytest.fixture
def cluster(make_cluster: Callable[[], LocalCluster]) -> LocalCluster:
    """An adapter of an empty cluster with the node ``a``."""
    return make_cluster()


def _processes_of(state_dir: Path) -> list[psutil.Process]:
    """Every supervisor of one state folder, and every process that has the environment of one of its jobs."""
    found = []
    for process, line in with_command_lines():
        with contextlib.suppress(psutil.Error):
            marks = [*line, process.environ().get("STEEPEST_CONTROL", "")]
            if any(mark.startswith(str(state_dir)) for mark in marks) and process.pid != os.getpid():
                found.append(process)
    return found


@pytest.fixture
def set_pace(monkeypatch: pytest.MonkeyPatch) -> SetPace:
    """Sets how containers' output is copied: burst (bytes), rate beyond it (bytes per second), shortest piece (bytes)."""

    def set_to(burst: int, per_s: float, piece: int) -> None:
        monkeypatch.setattr(copy_pace, "OUTPUT_BURST_BYTES", burst)
        monkeypatch.setattr(copy_pace, "OUTPUT_BYTES_S", per_s)
        monkeypatch.setattr(copy_pace, "PIECE_BYTES_LEAST", piece)

    return set_to
