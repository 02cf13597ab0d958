"""What NVIDIA's management library says of GPUs: their use, and which of them failed."""

from __future__ import annotations

import asyncio
import sys
import types
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from steepest.cluster.local import LocalCluster, LocalNode
from steepest.cluster.local.nvml import NvmlGpus, driver_of
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import InputError, RefusedError
from steepest.events.common import Resources
from steepest.events.facts import FailedGpu, GpuUse
from steepest.events.heartbeat import NodeHeartbeat, ReplicaState

TIMEOUT, LOST = 10, 15


class FakeNVMLError(Exception):
    """An error of the library, with its number."""

    def __init__(self, value: int) -> None:
        super().__init__({TIMEOUT: "Timeout", LOST: "GPU is lost"}[value])
        self.value = value


class FakeLibrary(types.ModuleType):
    """The library with three GPUs; a handle is an id. ``errors``: Xid errors, by GPU; ``lost``: GPUs off the bus."""

    NVMLError = FakeNVMLError
    NVML_ERROR_GPU_IS_LOST = LOST

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.errors: deque[tuple[int, int]] = deque()
        self.lost: list[int] = []
        self.registered: list[object] = []
        self.nvmlEventTypeXidCriticalError = 8
        self.nvmlInit = lambda: None
        self.nvmlDeviceGetCount = lambda: 3
        self.nvmlDeviceGetHandleByIndex = lambda gpu: gpu
        self.nvmlDeviceGetPciInfo = lambda handle: types.SimpleNamespace(busId=f"0000:{handle}")
        self.nvmlEventSetCreate = lambda: "set"
        self.nvmlDeviceRegisterEvents = lambda handle, kinds, into: self.registered.append((handle, kinds, into))
        self.nvmlDeviceGetMemoryInfo = lambda handle: types.SimpleNamespace(used=self._there(handle) << 30)
        self.nvmlDeviceGetUtilizationRates = lambda handle: types.SimpleNamespace(gpu=10 * handle)
        self.nvmlEventSetWait_v2 = self._wait

    def _there(self, handle: int) -> int:
        if handle in self.lost:
            raise FakeNVMLError(LOST)
        return handle

    def _wait(self, _: object, timeout_ms: int) -> types.SimpleNamespace:
        assert timeout_ms == 0
        if not self.errors:
            raise FakeNVMLError(TIMEOUT)
        gpu, xid = self.errors.popleft()
        return types.SimpleNamespace(device=gpu, eventData=xid)


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


@pytest.fixture
async def cluster(library: FakeLibrary, tmp_path: Path) -> AsyncIterator[LocalCluster]:
    """A node with the first GPU, and one with the two others."""
    del library
    made = opened(tmp_path)
    yield made
    await made.close()


def opened(folder: Path) -> LocalCluster:
    """An adapter on a folder, which opens the library."""
    nodes = [LocalNode("n1", Resources(cpu_m=500, gpus=1)), LocalNode("n2", Resources(cpu_m=500, gpus=2))]
    return LocalCluster(folder / "state", nodes, "test", heartbeat_s=0.1, cpu="duty-cycle", driver=NvmlGpus())


async def heard(cluster: LocalCluster, wanted: Callable[[NodeHeartbeat], bool]) -> NodeHeartbeat:
    """The first heartbeat like that."""
    async with asyncio.timeout(60):
        async for beat in cluster.heartbeats():
            if wanted(beat):
                return beat
    raise AssertionError


async def test_a_node_without_its_failed_gpu(cluster: LocalCluster, library: FakeLibrary) -> None:
    """It has one less and says why; no start gets that one, and who ended with it says nothing of its job."""
    dies = ReplicaSpec(
        command=("sh", "-c", "while [ ! -e stop ]; do sleep 0.1; done; exit 3"), requests=Resources(gpus=1)
    )
    beat = await heard(cluster, lambda one: one.node == "n2" and bool(one.gpus))
    assert beat.gpus == (GpuUse(1, 10, 1024), GpuUse(2, 20, 2048))
    await cluster.start(ReplicaId("a"), 1, "n2", dies, None)
    library.errors.append((1, 79))
    (files,) = cluster.files("n2")
    (files.output.parent / "work" / "stop").touch()

    beat = await heard(cluster, lambda one: any(each.state is not ReplicaState.RUNNING for each in one.replicas))
    assert (beat.capacity.gpus, beat.failed_gpus) == (1, (FailedGpu(1, "Xid 79"),))
    assert [(one.state, one.exit_status) for one in beat.replicas] == [(ReplicaState.GONE, None)]
    assert beat.replicas[0].reason == "GPU 1 has failed: Xid 79; its exit status was 3"

    sleeps = ReplicaSpec(command=("sleep", "600"), requests=Resources(gpus=1))
    await cluster.start(ReplicaId("b"), 1, "n2", sleeps, None)
    beat = await heard(cluster, lambda one: any(each.job == "b" and each.gpus for each in one.replicas))
    assert {one.job: one.gpus for one in beat.replicas}["b"] == (2,)
    with pytest.raises(RefusedError, match="n2 has 1, of which 0 are free"):
        await cluster.start(ReplicaId("c"), 1, "n2", sleeps, None)
    await cluster.stop(ReplicaId("b"), 1, grace_s=5.0)


async def test_a_failed_gpu_stays_out_of_use_until_the_machine_starts_again(
    cluster: LocalCluster, library: FakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next adapter of the folder knows it, though the library reports no error twice; a damaged record is none."""
    library.errors.append((1, 79))
    await heard(cluster, lambda one: bool(one.failed_gpus))
    await cluster.close()

    async def failed() -> tuple[FailedGpu, ...]:
        made = opened(tmp_path)
        beat = await heard(made, lambda one: one.node == "n2")
        await made.close()
        return beat.failed_gpus

    assert await failed() == (FailedGpu(1, "Xid 79"),)
    assert await failed() == (FailedGpu(1, "Xid 79"),)
    monkeypatch.setattr("steepest.cluster.local.cluster.boot_id", lambda: "another")
    assert await failed() == ()
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "pynvml", library)
    (tmp_path / "state" / "failed-gpus.json").write_text("[")
    assert await failed() == ()
