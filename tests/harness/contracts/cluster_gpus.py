"""The promises of a cluster about GPUs of which a driver says how they are.

It owns these promises as tests. It must never know which adapter it runs on. The driver is a stand-in
(``tests/harness/fake_nvml.py``); all else is real.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.harness.contracts.cluster_harness import PATIENCE_S
from tests.harness.fake_nvml import FakeLibrary

from steepest.cluster.port import Cluster, ReplicaId, ReplicaSpec
from steepest.errors import RefusedError
from steepest.events.common import Resources
from steepest.events.facts import FailedGpu, GpuUse
from steepest.events.heartbeat import NodeHeartbeat, ReplicaState

OpenGpus = Callable[[], Cluster]
"""Opens an adapter on the test's folder, with a node ``GpuContract.node`` of two GPUs."""


async def heard(cluster: Cluster, wanted: Callable[[NodeHeartbeat], bool]) -> NodeHeartbeat:
    """The first heartbeat like that."""
    async with asyncio.timeout(PATIENCE_S):
        async for beat in cluster.heartbeats():
            if beat.node == GpuContract.node and wanted(beat):
                return beat
    raise AssertionError


class GpuContract:
    """Inherit it with a fixture ``open_gpus``.

    Attributes:
        ids: The ids of the node's GPUs.
    """

    node = "large"
    ids: tuple[int, int]

    @pytest.fixture
    def library(self, monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
        """A library in place of NVIDIA's."""
        made = FakeLibrary()
        monkeypatch.setitem(sys.modules, "pynvml", made)
        return made

    async def test_a_node_without_its_failed_gpu(self, open_gpus: OpenGpus, library: FakeLibrary) -> None:
        """It has one less and says why; no start gets that one, and who ended with it says nothing of its job."""
        cluster, (first, second) = open_gpus(), self.ids
        dies = ReplicaSpec(
            command=("sh", "-c", "trap 'exit 3' TERM; while :; do sleep 0.1; done"), requests=Resources(gpus=1)
        )
        beat = await heard(cluster, lambda one: bool(one.gpus))
        assert beat.gpus == tuple(GpuUse(gpu, 10 * gpu, 1024 * gpu) for gpu in self.ids)
        await cluster.start(ReplicaId("a"), 1, self.node, dies, None)
        await heard(cluster, lambda one: any(each.gpus for each in one.replicas))
        library.errors.append((first, 79))
        await cluster.stop(ReplicaId("a"), 1, grace_s=PATIENCE_S)

        beat = await heard(cluster, lambda one: any(each.state is not ReplicaState.RUNNING for each in one.replicas))
        assert (beat.capacity.gpus, beat.failed_gpus) == (1, (FailedGpu(first, "Xid 79"),))
        assert [(one.state, one.exit_status) for one in beat.replicas] == [(ReplicaState.GONE, None)]
        assert beat.replicas[0].reason == f"GPU {first} has failed: Xid 79; its exit status was 3"

        sleeps = ReplicaSpec(command=("sleep", "600"), requests=Resources(gpus=1))
        await cluster.start(ReplicaId("b"), 1, self.node, sleeps, None)
        beat = await heard(cluster, lambda one: any(each.job == "b" and each.gpus for each in one.replicas))
        assert {one.job: one.gpus for one in beat.replicas}["b"] == (second,)
        with pytest.raises(RefusedError, match=f"{self.node} has 1, of which 0 are free"):
            await cluster.start(ReplicaId("c"), 1, self.node, sleeps, None)
        await cluster.stop(ReplicaId("b"), 1, grace_s=0.0)

    async def test_a_failed_gpu_stays_out_of_use_until_the_machine_starts_again(
        self, open_gpus: OpenGpus, library: FakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The next adapter of the folder knows it, though the library reports no error twice; a damaged record is none."""
        library.errors.append((self.ids[0], 79))
        cluster = open_gpus()
        await heard(cluster, lambda one: bool(one.failed_gpus))
        await cluster.close()

        async def failed() -> tuple[FailedGpu, ...]:
            made = open_gpus()
            beat = await heard(made, lambda _: True)
            await made.close()
            return beat.failed_gpus

        assert await failed() == (FailedGpu(self.ids[0], "Xid 79"),)
        assert await failed() == (FailedGpu(self.ids[0], "Xid 79"),)
        with monkeypatch.context() as other:
            other.setattr(f"{type(cluster).__module__}.boot_id", lambda: "another")
            assert await failed() == ()
        (tmp_path / "state" / "failed-gpus.json").write_text("[")
        assert await failed() == ()

    async def test_a_driver_that_hangs_delays_no_heartbeat(self, open_gpus: OpenGpus, library: FakeLibrary) -> None:
        """Heartbeats go on without the use of its GPUs, which is unknown then, until it answers."""
        cluster = open_gpus()
        await heard(cluster, lambda one: bool(one.gpus))
        library.answers.clear()
        try:
            await heard(cluster, lambda one: not one.gpus)
            await heard(cluster, lambda one: not one.gpus)
        finally:
            library.answers.set()
        await heard(cluster, lambda one: bool(one.gpus))
