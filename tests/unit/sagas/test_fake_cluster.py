"""The cluster in memory keeps the port's contract, in virtual time: what is proven with it is proven of the port."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.harness.contracts.cluster_contract import ClusterContract
from tests.harness.contracts.cluster_harness import ClusterHarness
from tests.harness.system.fake_cluster import FakeCluster
from tests.harness.system.fake_nodes import FakeNodes
from tests.harness.system.fake_training import PROGRAM
from tests.harness.virtual_time import VirtualClock

from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events.common import Resources
from steepest_lab.simulated.training import Training


class FakeHarness(ClusterHarness):
    """Two nodes in memory."""

    def __init__(self, folder: Path) -> None:
        self.nodes = {"large": Resources(cpu_m=800, memory_mib=512), "small": Resources(cpu_m=400, memory_mib=256)}
        self.pool = "test"
        self._clock = VirtualClock()
        self._world = FakeNodes(self.nodes, folder, self._clock)
        self._zombies: list[FakeCluster] = []

    def job(self, *arguments: str) -> ReplicaSpec:
        """The same flags as the contract's job has, for a training in memory."""
        return ReplicaSpec(command=(PROGRAM, *arguments))

    async def leave(self) -> None:
        """Forget the adapter, which goes on as a zombie beside the next one."""
        self._zombies.append(self.cluster)

    async def come_back(self) -> None:
        """A new adapter of the same nodes."""
        self.cluster: FakeCluster = FakeCluster(self._world, self.pool, self._clock, heartbeat_s=0.1)

    async def kill(self, replica: ReplicaId) -> None:
        """End the training as by SIGKILL."""
        self.newest(replica).kill()

    async def lose(self, replica: ReplicaId) -> None:
        """End the training unseen."""
        self.newest(replica).lose()

    async def end_place(self, replica: ReplicaId) -> None:
        """End the training with its node."""
        self.newest(replica).lose()

    def newest(self, replica: ReplicaId) -> Training:
        """The newest incarnation."""
        training = self._world.newest(replica)
        assert training is not None
        return training

    async def aclose(self) -> None:
        """End everything."""
        self._world.end_all()
        for cluster in (*self._zombies, self.cluster):
            await cluster.close()


class TestFakeCluster(ClusterContract):
    """The whole contract."""

    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[FakeHarness]:
        """An empty cluster."""
        async with contextlib.aclosing(FakeHarness(tmp_path)) as harness:
            await harness.come_back()
            yield harness
