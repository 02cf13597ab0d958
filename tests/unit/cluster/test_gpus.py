"""GPUs are assigned by their ids: no two replicas have the same one, or more of one than there is."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import types
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.app.settings import amounts
from steepest.cluster.folders.adapter_folder import AdapterFolder, ExitRecord, spec_record
from steepest.cluster.folders.gpu_table import GpuAssignment, GpuTable
from steepest.cluster.local import LocalCluster, LocalNode
from steepest.cluster.local.cluster import numbered_gpus
from steepest.cluster.local.machine import own_capacity, own_name
from steepest.cluster.nvml import count_gpus
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import InputError, RefusedError
from steepest.events.common import Resources, is_name
from steepest.events.heartbeat import ReplicaState

NODES = {"n1": (0, 1), "n2": (2, 3, 4)}


@pytest.fixture
def state(tmp_path: Path) -> AdapterFolder:
    """An empty state folder."""
    made = AdapterFolder(tmp_path)
    made.make()
    return made


def assign(
    state: AdapterFolder, job: str, node: str, *, gpus: int = 0, gpu_m: int = 0, incarnation: int = 1
) -> tuple[int, ...] | None:
    """Assign GPUs to a new incarnation, and make its folder, as a start does."""
    folder = state.incarnation(ReplicaId(job), incarnation)
    ids = GpuTable(state, NODES).assign(folder, node, Resources(gpus=gpus, gpu_m=gpu_m))
    if not folder.path.exists():
        folder.make(spec_record(node, ReplicaSpec(command=("x",))))
    return ids


def ids_of(state: AdapterFolder, job: str, incarnation: int = 1) -> tuple[int, ...]:
    """The GPUs that the table names for an incarnation."""
    return GpuTable(state, {}).ids_of(state.incarnation(ReplicaId(job), incarnation))


def end(state: AdapterFolder, job: str, incarnation: int = 1) -> None:
    """Record an end."""
    folder = state.incarnation(ReplicaId(job), incarnation)
    folder.write(folder.exit, ExitRecord(status=0))


def test_each_replica_has_its_own(state: AdapterFolder) -> None:
    """Whole GPUs are assigned from the lowest id on; one that asks for none gets none, and a node without any has none."""
    assert assign(state, "a", "n2", gpus=2) == (2, 3)
    assert assign(state, "b", "n2", gpus=1) == (4,)
    assert assign(state, "c", "n2") == ()
    assert assign(state, "d", "n3") is None


def test_shares_are_put_together(state: AdapterFolder) -> None:
    """Shares fill a GPU before the next one is begun; whole GPUs are those that no share has."""
    assert assign(state, "a", "n2", gpu_m=500) == (2,)
    assert assign(state, "b", "n2", gpu_m=300) == (2,)
    assert assign(state, "c", "n2", gpu_m=300) == (3,)
    assert assign(state, "d", "n2", gpus=1) == (4,)
    assert assign(state, "e", "n2", gpu_m=200) == (2,)
    assert assign(state, "f", "n1", gpu_m=1500) == (0, 1)
    assert assign(state, "g", "n1", gpu_m=500) == (1,)


def test_a_start_without_free_gpus_is_refused(state: AdapterFolder) -> None:
    """What is not there is refused with a code, and changes nothing; so are shares that are left on different GPUs."""
    assign(state, "a", "n1", gpu_m=600)
    assign(state, "b", "n1", gpu_m=600)
    for wanted in (Resources(gpus=1), Resources(gpu_m=500)):
        with pytest.raises(RefusedError, match=r"asks for .* GPUs; n1 has 2, of which 0.8 are free") as refusal:
            GpuTable(state, NODES).assign(state.incarnation(ReplicaId("c"), 1), "n1", wanted)
        assert refusal.value.code == "no-free-gpus"

    assert [ids_of(state, job) for job in "abc"] == [(0,), (1,), ()]


def test_an_incarnation_keeps_its_gpus_until_its_end(state: AdapterFolder) -> None:
    """A new adapter gives the same GPUs to the same incarnation, and gives none away until it is proven ended."""
    assert assign(state, "a", "n1", gpus=2) == (0, 1)
    assert assign(state, "a", "n1", gpus=2) == (0, 1)
    with pytest.raises(RefusedError):
        assign(state, "b", "n1", gpus=1)
    end(state, "a")

    assert assign(state, "b", "n1", gpus=1) == (0,)
    assert [ids_of(state, job) for job in "ab"] == [(), (0,)]


def test_a_forgotten_job_and_a_replaced_start_have_no_gpus(state: AdapterFolder) -> None:
    """GPUs are not lost with a job that is forgotten, nor with a start that was never carried out."""
    assign(state, "a", "n1", gpus=2)
    state.retire("a")
    GpuTable(state, NODES).assign(state.incarnation(ReplicaId("b"), 1), "n1", Resources(gpus=2))
    with pytest.raises(RefusedError):
        assign(state, "c", "n1", gpus=2)

    state.incarnation(ReplicaId("b"), 2).make(spec_record("n2", ReplicaSpec(command=("x",))))
    assert assign(state, "c", "n1", gpus=2) == (0, 1)


def test_a_damaged_table_is_refused(state: AdapterFolder) -> None:
    """Without the table it is not known which GPUs are free, so none is given away; who asks for none is not affected."""
    state.gpus.write_text("{")
    with pytest.raises(RefusedError) as refusal:
        assign(state, "a", "n1", gpus=1)

    assert refusal.value.code == "damaged-table"
    assert assign(state, "b", "n3") is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["start", "end"]),
            st.sampled_from(["a", "b", "c", "d", "e"]),
            st.integers(0, 3),
            st.sampled_from([0, 250, 500, 700]),
        ),
        max_size=25,
    )
)
def test_no_gpu_is_given_twice(acts: list[tuple[str, str, int, int]]) -> None:
    """While replicas start and end, no GPU is assigned more than once, and each replica has what it asked for."""
    with tempfile.TemporaryDirectory() as folder:
        state = AdapterFolder(Path(folder))
        state.make()
        incarnations: dict[str, int] = {}
        running: dict[str, Resources] = {}
        for act, job, gpus, gpu_m in acts:
            if act == "start" and job not in running:
                incarnation = incarnations.get(job, 0) + 1
                try:
                    assign(state, job, "n2", gpus=gpus, gpu_m=gpu_m, incarnation=incarnation)
                except RefusedError:
                    continue
                incarnations[job] = incarnation
                running[job] = Resources(gpus=gpus, gpu_m=gpu_m)
            elif act == "end" and running.pop(job, None) is not None:
                end(state, job, incarnations[job])
            found = {
                job: GpuAssignment(job, 0, incarnations[job], "n2", ids_of(state, job, incarnations[job]), asked.gpu_m)
                for job, asked in running.items()
            }
            for gpu in NODES["n2"]:
                assert sum(one.taken_m(gpu) for one in found.values()) <= 1000
            for name, one in found.items():
                assert sum(one.taken_m(gpu) for gpu in NODES["n2"]) == running[name].all_gpus_m


def test_emulated_nodes_share_the_machine_s_gpus() -> None:
    """Nodes on one machine have different GPUs of it."""
    nodes = [LocalNode(name, Resources(cpu_m=1, gpus=gpus)) for name, gpus in (("a", 2), ("b", 0), ("c", 1))]

    assert numbered_gpus(nodes) == {"a": range(2), "b": range(2, 2), "c": range(2, 3)}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    """A node with two GPUs, and one without."""
    nodes = [LocalNode("n1", Resources(cpu_m=500, gpus=2)), LocalNode("n2", Resources(cpu_m=500))]
    made = LocalCluster(tmp_path / "state", nodes, "test", heartbeat_s=0.1, cpu="duty-cycle")
    yield made
    await made.close()


async def test_a_process_sees_its_gpus(cluster: LocalCluster) -> None:
    """CUDA_VISIBLE_DEVICES names the assigned GPUs, is empty where none was asked for, and untouched on a node without."""
    printed = {}
    script = ("sh", "-c", "echo gpus=${CUDA_VISIBLE_DEVICES-unset}")
    for job, node, gpus in (("a", "n1", 1), ("b", "n1", 0), ("c", "n2", 0)):
        spec = ReplicaSpec(command=script, requests=Resources(gpus=gpus), env={"CUDA_VISIBLE_DEVICES": "7"})
        await cluster.start(ReplicaId(job), 1, node, spec, None)
        await cluster.wait_for_step(ReplicaId(job), 1, at_least=1, timeout_s=60.0)
        (found,) = [files for files in cluster.files(node) if files.replica.job == job]
        printed[job] = found.output.read_text().strip()

    assert printed == {"a": "gpus=0", "b": "gpus=", "c": "gpus=7"}


async def test_a_heartbeat_says_which_gpus_a_replica_has(cluster: LocalCluster, tmp_path: Path) -> None:
    """While it runs, also by an adapter that adopts it; whoever gets its GPU is listed once its end is."""
    sleeps = ReplicaSpec(command=("sleep", "60"), requests=Resources(gpus=1))
    await cluster.start(ReplicaId("b"), 1, "n1", sleeps, None)
    await cluster.start(ReplicaId("z"), 1, "n1", sleeps, None)
    assert await listed(cluster, "b", "z") == [("b", ReplicaState.RUNNING, (0,)), ("z", ReplicaState.RUNNING, (1,))]

    nodes = [LocalNode("n1", Resources(cpu_m=500, gpus=2))]
    second = LocalCluster(tmp_path / "state", nodes, "test", heartbeat_s=0.1, cpu="duty-cycle")
    assert await listed(second, "b", "z") == [("b", ReplicaState.RUNNING, (0,)), ("z", ReplicaState.RUNNING, (1,))]
    await second.close()

    await cluster.stop(ReplicaId("z"), 1, grace_s=5.0)
    await cluster.start(ReplicaId("a"), 1, "n1", sleeps, None)
    assert await listed(cluster, "a", "b", "z") == [
        ("z", ReplicaState.EXITED, ()),
        ("a", ReplicaState.RUNNING, (1,)),
        ("b", ReplicaState.RUNNING, (0,)),
    ]
    for job in "ab":
        await cluster.stop(ReplicaId(job), 1, grace_s=5.0)


async def listed(cluster: LocalCluster, *jobs: str) -> list[tuple[str, ReplicaState, tuple[int, ...]]]:
    """What the first heartbeat of n1 says that lists these jobs."""
    async with asyncio.timeout(60):
        async for beat in cluster.heartbeats():
            found = [(one.job, one.state, one.gpus) for one in beat.replicas]
            if beat.node == "n1" and sorted(job for job, *_ in found) == sorted(jobs):
                return found
    raise AssertionError


async def test_a_refused_start_leaves_nothing(cluster: LocalCluster) -> None:
    """A start that lacks GPUs, or fails after they were assigned, is not known, and takes none."""
    for command, gpus, code in ((("true",), 3, "no-free-gpus"), (("/no/such/program",), 2, "no-such-program")):
        spec = ReplicaSpec(command=command, requests=Resources(gpus=gpus))
        with pytest.raises(RefusedError) as refusal:
            await cluster.start(ReplicaId("a"), 1, "n1", spec, None)
        assert refusal.value.code == code
        assert await cluster.lookup(ReplicaId("a")) is None
    await cluster.start(ReplicaId("b"), 1, "n1", ReplicaSpec(command=("true",), requests=Resources(gpus=2)), None)

    assert await cluster.wait_for_step(ReplicaId("b"), 1, at_least=1, timeout_s=60.0) == 0


def test_gpus_are_counted_by_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library's binding is installed it says how many there are."""
    calls: list[str] = []
    module = _binding(
        nvmlInit=lambda: calls.append("init"),
        nvmlDeviceGetCount=lambda: 4,
        nvmlShutdown=lambda: calls.append("shutdown"),
    )
    monkeypatch.setitem(sys.modules, "pynvml", module)

    assert count_gpus() == 4
    assert calls == ["init", "shutdown"]
    assert amounts.node("n1=4:8Gi:gpus=auto").capacity == Resources(4000, 8192, 4)


def test_without_the_binding_nvidia_smi_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lists a GPU a line, with what a GPU is divided into below it."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    program = tmp_path / "nvidia-smi"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --list-gpus ] && printf "GPU 0: A (UUID)\\n  MIG 1g\\nGPU 1: B (UUID)\\n"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")

    assert count_gpus() == 2
    assert own_capacity().gpus == 2


def test_this_machine_as_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of its cores and memory is left for the system and its users; without GPUs it has none."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)))
    many = own_capacity()
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    few = own_capacity()

    assert (few.cpu_m, many.cpu_m, many.gpus) == (1_800, 62_000, 0)
    assert 0 < few.memory_mib < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    assert is_name(own_name())


def test_a_machine_without_nvml_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a driver, or with one that fails, the message says what to do."""
    monkeypatch.setenv("PATH", "/nowhere")

    def fail() -> None:
        raise LookupError("driver not loaded")

    for module in (None, _binding(nvmlInit=fail, NVMLError=LookupError)):
        monkeypatch.setitem(sys.modules, "pynvml", module)
        with pytest.raises(InputError, match="GPUs cannot be counted") as refusal:
            count_gpus()
        assert refusal.value.code == "no-nvml"


def _binding(**functions: object) -> types.SimpleNamespace:
    return types.SimpleNamespace(**{"NVMLError": RuntimeError, **functions})


@pytest.mark.parametrize("text", ["n1=4:gpus=0.5", "n1=4:gpus=-1", "n1=4:gpus=", "n1=4:1Gi:gpus=99999"])
def test_a_wrong_number_of_gpus_is_refused(text: str) -> None:
    """What is no number of GPUs is refused, with an example."""
    with pytest.raises(ValueError, match="gpus=2"):
        amounts.node(text)


def test_declared_gpus() -> None:
    """A node's GPUs are declared after its CPU and memory."""
    assert amounts.node("n1=4:gpus=2").capacity == Resources(cpu_m=4000, gpus=2)
    assert amounts.node("n1=0.5:1Gi:gpus=0").capacity == Resources(cpu_m=500, memory_mib=1024)
