"""The local cluster keeps the port's contract, in both ways of sharing CPU, with and without file system events."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest
from tests.harness.contracts import contract_job
from tests.harness.contracts.cluster_contract import ClusterContract
from tests.harness.contracts.cluster_harness import ClusterHarness
from tests.harness.contracts.cluster_reports import MetricsContract
from tests.harness.forms import WHY
from tests.harness.processes import with_command_lines

from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder, StartRecord
from steepest.cluster.local import LocalCluster, LocalNode
from steepest.cluster.local.groups import find_groups
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events.common import Resources

Cpu = Literal["cgroup", "duty-cycle"]


class LocalHarness(ClusterHarness):
    """Two emulated nodes on this machine."""

    def __init__(self, state_dir: Path, cpu: Cpu, *, events: bool, link_mbit: int | None = None) -> None:
        self.nodes = {"large": Resources(cpu_m=800, memory_mib=512), "small": Resources(cpu_m=400, memory_mib=256)}
        self.pool = "test"
        self.state_dir = state_dir
        self._cpu: Cpu = cpu
        self._events = events
        self._link_mbit = link_mbit
        self._zombies: list[LocalCluster] = []

    def job(self, *arguments: str) -> ReplicaSpec:
        """The contract's job, under this Python."""
        return ReplicaSpec(command=(sys.executable, contract_job.__file__, *arguments))

    async def leave(self) -> None:
        """Drop the adapter without closing it: it keeps running beside the next one, the worst case."""
        self._zombies.append(self.cluster)

    async def come_back(self) -> None:
        """A new adapter on the same folder."""
        nodes = [LocalNode(name, capacity) for name, capacity in self.nodes.items()]
        self.cluster: LocalCluster = LocalCluster(
            self.state_dir,
            nodes,
            self.pool,
            heartbeat_s=0.1,
            cpu=self._cpu,
            events=self._events,
            link_mbit=self._link_mbit,
        )

    async def kill(self, replica: ReplicaId) -> None:
        """Kill the job; its supervisor sees how it ended."""
        os.kill(self.started(replica).pid, signal.SIGKILL)

    async def lose(self, replica: ReplicaId) -> None:
        """Kill the supervisor alone."""
        os.kill(supervisor_of(self.newest(replica)), signal.SIGKILL)

    async def end_place(self, replica: ReplicaId) -> None:
        """SIGTERM to the job and to its supervisor, as the machine's shutdown sends it to all processes."""
        supervisor = supervisor_of(self.newest(replica))
        os.kill(self.started(replica).pid, signal.SIGTERM)
        os.kill(supervisor, signal.SIGTERM)

    def newest(self, replica: ReplicaId) -> IncarnationFolder:
        """The folder of the newest incarnation."""
        return AdapterFolder(self.state_dir).incarnations(replica)[-1]

    def started(self, replica: ReplicaId) -> StartRecord:
        """What its supervisor wrote at the start."""
        start = self.newest(replica).started()
        assert start is not None
        return start

    async def aclose(self) -> None:
        """Kill all supervisors, let an adapter end what is left, and close all adapters."""
        for folder in AdapterFolder(self.state_dir).all():
            with contextlib.suppress(StopIteration, ProcessLookupError):
                os.kill(supervisor_of(folder), signal.SIGKILL)
        await self.leave()
        await self.come_back()
        for folder in AdapterFolder(self.state_dir).all():
            await self.cluster.stop(folder.replica, folder.incarnation, grace_s=0.0)
        for cluster in (*self._zombies, self.cluster):
            await cluster.close()


def supervisor_of(folder: IncarnationFolder) -> int:
    """The pid of the living supervisor of an incarnation."""
    return next(process.pid for process, line in with_command_lines() if str(folder.path) in line)


def needs(cpu: Cpu, state_dir: Path, *, long: bool) -> None:
    """Skip where control groups cannot be used; where they can, the other way is of the long form."""
    has_groups = find_groups(state_dir) is not None
    if cpu == "cgroup" and not has_groups:
        pytest.skip("CPU control groups cannot be used here")
    if cpu == "duty-cycle" and has_groups and not long:
        pytest.skip(WHY)


class TestLocalCluster(ClusterContract, MetricsContract):
    """The whole contract."""

    @pytest.fixture(params=["cgroup", "duty-cycle"])
    async def harness(self, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalHarness]:
        """An empty cluster."""
        needs(request.param, tmp_path, long=request.config.getoption("long"))
        async with contextlib.aclosing(LocalHarness(tmp_path, request.param, events=request.param == "cgroup")) as it:
            await it.come_back()
            yield it
