"""What NVIDIA's management library says of GPUs: their use, and which of them failed."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.harness.contracts.cluster_gpus import GpuContract, OpenGpus
from tests.harness.fake_nvml import LOST, FakeLibrary, FakeNVMLError

from steepest.cluster.docker import DockerNode
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.heartbeat_fanout import NO_FACTS, GpuFacts
from steepest.cluster.local import LocalCluster, LocalNode
from steepest.cluster.nvml import MachineGpus, NvmlGpus, driver_of
from steepest.errors import InputError
from steepest.events.common import Resources
from steepest.events.facts import FailedGpu, GpuUse


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    """A library in place of NVIDIA's."""
    made = FakeLibrary()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


def test_the_use_of_each_gpu_is_known(library: FakeLibrary) -> None:
    """Its memory, and how busy it is; each is asked to report its errors."""
    driver = NvmlGpus()
    driver.look()

    assert driver.use == {0: GpuUse(0, 0, 0), 1: GpuUse(1, 10, 1024), 2: GpuUse(2, 20, 2048)}
    assert driver.failed == {}
    assert library.registered == [(gpu, 8, "set") for gpu in range(3)]


def test_a_gpu_fails_by_an_error_of_its_own(library: FakeLibrary) -> None:
    """Not by one that a program causes; it stays failed, and has no use."""
    driver = NvmlGpus()
    library.errors.extend([(0, 31), (1, 79), (1, 48)])
    library.lost.append(2)
    driver.look()
    library.lost.clear()
    driver.look()

    assert driver.failed == {1: "Xid 79", 2: "GPU is lost"}
    assert list(driver.use) == [0]


def test_without_a_driver_nothing_is_known(library: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Declared GPUs need none, and a pool without GPUs does not ask; who asks is told."""

    def fail() -> None:
        raise FakeNVMLError(LOST)

    assert driver_of(0) is None
    assert driver_of(1) is not None
    library.nvmlInit = fail
    assert driver_of(1) is None
    with pytest.raises(InputError, match="there is no driver"):
        NvmlGpus()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(InputError, match="pynvml") as refusal:
        NvmlGpus()
    assert refusal.value.code == "no-nvml"


def test_this_machines_driver_says_nothing_of_other_machines(library: FakeLibrary, tmp_path: Path) -> None:
    """An engine behind a network has GPUs with the same ids, and neither their use nor their failures are known."""
    library.lost.append(0)
    driver = NvmlGpus()
    here, far = (
        DockerNode(name=name, url=url, capacity=Resources(gpus=2))
        for name, url in (("here", "unix:///run/docker.sock"), ("far", "tcp://192.0.2.1:2376"))
    )
    nodes = {node.name: range(2) for node in (here, far) if node.is_here}
    machine = MachineGpus(AdapterFolder(tmp_path), nodes, driver, "boot")
    machine.look()

    assert machine.facts("here") == GpuFacts((GpuUse(1, 10, 1024),), (FailedGpu(0, "GPU is lost"),))
    assert machine.facts("far") == NO_FACTS


class TestLocalGpus(GpuContract):
    """Emulated nodes: the first GPU is another node's, and the node of the tests has the two others."""

    ids = (1, 2)

    @pytest.fixture
    async def open_gpus(self, library: FakeLibrary, tmp_path: Path) -> AsyncIterator[OpenGpus]:
        """Adapters on a folder."""
        del library
        nodes = [LocalNode("n1", Resources(cpu_m=500, gpus=1)), LocalNode(self.node, Resources(cpu_m=500, gpus=2))]
        made: list[LocalCluster] = []

        def opened() -> LocalCluster:
            made.append(
                LocalCluster(tmp_path / "state", nodes, "test", heartbeat_s=0.1, cpu="duty-cycle", driver=NvmlGpus())
            )
            return made[-1]

        yield opened
        for each in made:
            await each.close()
