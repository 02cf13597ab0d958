"""A container gets the GPUs that are assigned to it, here only their ids, since the engines have no GPU runtime.

The GPUs of an engine on this machine are known to its driver.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import docker
import pytest
from tests.harness.contracts.cluster_gpus import GpuContract, OpenGpus
from tests.harness.contracts.cluster_harness import PATIENCE_S
from tests.harness.docker_harness import DockerHarness
from tests.harness.fake_nvml import FakeLibrary

from steepest.cluster.docker import Allowed, DockerCluster, DockerNode
from steepest.cluster.docker.container import creation
from steepest.cluster.docker.mounts import mounts_of
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.nvml import NvmlGpus
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import RefusedError
from steepest.events.common import Resources
from steepest_lab.docker_engines import images

SHOW = ("sh", "-c", "echo gpus=${CUDA_VISIBLE_DEVICES-unset}")


async def test_a_container_is_given_its_gpus_by_id(harness: DockerHarness) -> None:
    """Each has its own; a start beyond what there is, is refused, and nothing is known of it."""
    engine = harness.engines["large"]
    node = DockerNode(name="large", url=engine.url, capacity=Resources(cpu_m=800, memory_mib=512, gpus=2))
    cluster = DockerCluster(
        harness.state.path, [node], "test", image=images.BASE, allowed=harness.allowed, heartbeat_s=0.5
    )
    spec = ReplicaSpec(command=("sleep", "600"), requests=Resources(gpus=1))
    await cluster.start(ReplicaId("a"), 1, "large", spec, None)
    await cluster.start(ReplicaId("b"), 1, "large", ReplicaSpec(command=SHOW, requests=Resources(gpus=1)), None)
    await cluster.wait_for_step(ReplicaId("b"), 1, at_least=1, timeout_s=PATIENCE_S)
    with pytest.raises(RefusedError) as refusal:
        await cluster.start(ReplicaId("c"), 1, "large", ReplicaSpec(command=SHOW, requests=Resources(gpus=2)), None)
    await cluster.stop(ReplicaId("a"), 1, grace_s=0.0)
    await cluster.start(ReplicaId("c"), 1, "large", ReplicaSpec(command=SHOW, requests=Resources(gpus=2)), None)
    await cluster.wait_for_step(ReplicaId("c"), 1, at_least=1, timeout_s=PATIENCE_S)
    await cluster.stop(ReplicaId("c"), 1, grace_s=0.0)
    await cluster.stop(ReplicaId("b"), 1, grace_s=0.0)
    printed = {files.replica.job: files.output.read_text().strip() for files in cluster.files("large")}
    await cluster.close()

    assert refusal.value.code == "no-free-gpus"
    assert (printed["b"], printed["c"]) == ("gpus=1", "gpus=0,1")


def test_an_engine_with_a_gpu_runtime_is_asked_for_devices(harness: DockerHarness) -> None:
    """The container gets the devices by their ids, and counts them from 0."""
    state = AdapterFolder(harness.state.path)
    folder = state.incarnation(ReplicaId("a"), 1)
    spec = ReplicaSpec(command=SHOW)
    client = docker.APIClient(base_url=harness.engines["large"].url, version="auto")
    asked: dict[str, Any] = creation(
        client,
        folder=folder,
        spec=spec,
        image=images.BASE,
        restore=None,
        network=None,
        capacity=Resources(cpu_m=800, memory_mib=512),
        soft=False,
        label="x",
        mounts=mounts_of(state, folder, spec, Allowed((), harness.state.path)),
        addresses=None,
        gpus=(1, 3),
        requests_gpus=True,
    )
    client.close()

    (device,) = asked["host_config"]["DeviceRequests"]
    assert (device["DeviceIDs"], device["Capabilities"]) == (["1", "3"], [["gpu"]])
    assert asked["environment"]["CUDA_VISIBLE_DEVICES"] == "0,1"


class TestDockerGpus(GpuContract):
    """An engine on this machine."""

    ids = (0, 1)

    @pytest.fixture
    async def open_gpus(self, library: FakeLibrary, harness: DockerHarness) -> AsyncIterator[OpenGpus]:
        """Adapters on a folder; the second engine has no GPUs."""
        del library
        engine, made = harness.engines[self.node], list[DockerCluster]()
        node = DockerNode(name=self.node, url=engine.url, capacity=Resources(cpu_m=800, memory_mib=512, gpus=2))

        def opened() -> DockerCluster:
            driver = NvmlGpus()
            made.append(
                DockerCluster(
                    harness.state.path,
                    [node],
                    "test",
                    image=images.BASE,
                    allowed=harness.allowed,
                    heartbeat_s=0.5,
                    driver=driver,
                )
            )
            return made[-1]

        yield opened
        for each in made:
            await each.close()
