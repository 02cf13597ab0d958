"""A node's agent speaks for its node alone, reads its files alone, and nothing else does while it is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.harness.kubernetes_stub import KubernetesStub, adapter_on, served
from tests.harness.waiting import until

from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.kubernetes import KubernetesCluster
from steepest.cluster.kubernetes.agent import node_claim, node_output
from steepest.cluster.kubernetes.agent.node_claim import NodeClaims
from steepest.cluster.kubernetes.agent.node_sources import AgentNode
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events.common import Resources
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState

SPEC = ReplicaSpec(command=("train",), requests=Resources(cpu_m=10))
SIZE = Resources(1_000, 1_024)
NODES = [("n1", SIZE), ("n2", SIZE)]
MINE = ReplicaId("mine")


@pytest.fixture
async def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubernetesStub]:
    """An API server with two nodes, whose agents look often."""
    monkeypatch.setattr(node_claim, "LOOK_S", 0.05)
    monkeypatch.setattr(node_output, "LOOK_S", 0.05)
    made = KubernetesStub()
    for name, _ in NODES:
        made.node(name, labels={"of": name})
    async with served(made, tmp_path / "kubeconfig"):
        yield made


class Heard:
    """The newest heartbeat of each node that an adapter has sent."""

    def __init__(self, cluster: KubernetesCluster) -> None:
        self.newest: dict[str, NodeHeartbeat] = {}
        self.count: dict[str, int] = {}
        self.cluster = cluster
        self._task = asyncio.create_task(self._hear())

    async def _hear(self) -> None:
        async for each in self.cluster.heartbeats():
            self.newest[each.node] = each
            self.count[each.node] = self.count.get(each.node, 0) + 1

    def reports(self, node: str) -> dict[str, ReplicaReport]:
        """The replicas on a node, by job."""
        return {one.job: one for one in self.newest[node].replicas} if node in self.newest else {}

    async def close(self) -> None:
        """Close the adapter."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.cluster.close()


class Place:
    """Adapters of one installation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: list[Heard] = []
        self.migrator = adapter_on(folder, NODES, has_agents=True)

    def agent(self, name: str) -> Heard:
        """The agent of a node."""
        node = AgentNode(name, logs=self.folder / "logs" / name, groups=self.folder / "groups" / name)
        return self.heard(adapter_on(self.folder, NODES, agent=node, has_agents=True))

    def heard(self, cluster: KubernetesCluster) -> Heard:
        """An adapter whose heartbeats are sent."""
        self._open.append(Heard(cluster))
        return self._open[-1]

    async def close(self) -> None:
        """Close all."""
        for each in self._open:
            await each.close()
        await self.migrator.close()


@pytest.fixture
async def place(stub: KubernetesStub, tmp_path: Path) -> AsyncIterator[Place]:
    """An installation with agents."""
    del stub
    made = Place(tmp_path)
    yield made
    await made.close()


def pod_of(stub: KubernetesStub, job: str) -> tuple[str, str]:
    """Name and UID of a job's pod."""
    found = next(each for name, each in stub.objects["pods"].items() if name.startswith(f"{job}-"))
    return found["metadata"]["name"], found["metadata"]["uid"]


async def test_an_agent_speaks_for_its_node_alone(place: Place, stub: KubernetesStub) -> None:
    """It lists what runs there, and asks the API server for nothing of another node."""
    first, second = place.agent("n1"), place.agent("n2")
    await place.migrator.start(MINE, 1, "n1", SPEC, None)
    await place.migrator.start(ReplicaId("theirs"), 1, "n2", SPEC, None)
    await until(lambda: "mine" in first.reports("n1") and "theirs" in second.reports("n2"))

    assert (set(first.newest), set(second.newest)) == ({"n1"}, {"n2"})
    assert (set(first.reports("n1")), set(second.reports("n2"))) == ({"mine"}, {"theirs"})
    lists = [path for path in stub.paths if path.startswith("/api/v1/") and "nodeName" in path]
    assert {"n1", "n2"} == {
        path.partition("nodeName%3D")[2][:2] or path.partition("nodeName=")[2][:2] for path in lists
    }
    assert not [path for path in stub.paths if "/log" in path or "/proxy" in path]


async def test_what_a_pod_prints_and_uses_is_read_from_the_node(
    place: Place, stub: KubernetesStub, tmp_path: Path
) -> None:
    """Its output is whole once its end is reported, and only its agent has copied it."""
    first = place.agent("n1")
    await place.migrator.start(MINE, 1, "n1", SPEC, None)
    name, uid = pod_of(stub, "mine")
    log = tmp_path / "logs" / "n1" / f"n_{name}_{uid}" / "job" / "0.log"
    log.parent.mkdir(parents=True)
    log.write_text("2026-01-31T12:00:00.1Z stdout F begun\n")
    (status,) = stub.objects["pods"][name]["status"]["containerStatuses"]
    group = tmp_path / "groups" / "n1" / "kubepods" / f"pod{uid}" / status["containerID"].partition("://")[2]
    group.mkdir(parents=True)
    (tmp_path / "groups" / "n1" / "cgroup.controllers").write_text("cpu memory\n")
    (group / "cpu.stat").write_text("usage_usec 2000000\n")
    output = AdapterFolder(tmp_path / "state").incarnation(MINE, 1).output
    await until(lambda: output.exists() and output.read_text() == "begun\n")
    await until(lambda: first.reports("n1")["mine"].cpu_ms == 2_000)
    assert first.reports("n1")["mine"].memory_mib is None
    assert first.reports("n1")["mine"].network_bytes_s is None

    with log.open("a") as file:
        file.write("2026-01-31T12:00:00.2Z stderr F ended\n")
    await place.migrator.stop(MINE, 1, grace_s=30.0)
    await until(lambda: first.reports("n1")["mine"].state is ReplicaState.EXITED)

    assert output.read_text() == "begun\nended\n"
    assert not [path for path in stub.paths if "/log" in path]


async def test_a_job_that_goes_on_elsewhere_is_reported_there(place: Place) -> None:
    """The agent of its last node no longer lists it, so that no node repeats what is over."""
    first, second = place.agent("n1"), place.agent("n2")
    await place.migrator.start(MINE, 1, "n1", SPEC, None)
    await until(lambda: "mine" in first.reports("n1"))
    await place.migrator.stop(MINE, 1, grace_s=30.0)
    await place.migrator.start(MINE, 2, "n2", SPEC, None)
    await until(lambda: "mine" in second.reports("n2"))
    await until(lambda: first.reports("n1") == {})

    assert second.reports("n2")["mine"].incarnation == 2


async def test_what_ended_while_an_agent_was_away_is_reported(place: Place) -> None:
    """A new agent finds the incarnations of its node in the state folder, and the others it leaves alone."""
    first = place.agent("n1")
    await place.migrator.start(MINE, 1, "n1", SPEC, None)
    await place.migrator.start(ReplicaId("theirs"), 1, "n2", SPEC, None)
    await until(lambda: "mine" in first.reports("n1"))
    await first.close()
    await place.migrator.stop(MINE, 1, grace_s=30.0)
    again = place.agent("n1")
    await until(lambda: "mine" in again.reports("n1"))

    assert again.reports("n1")["mine"].state is ReplicaState.EXITED
    assert set(again.reports("n1")) == {"mine"}


async def test_an_agent_learns_of_its_jobs_by_its_nodes_pods(
    place: Place, stub: KubernetesStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not list the incarnations of all nodes to find its own, and believes no pod that is not on record."""
    first = place.agent("n1")
    await until(lambda: bool(first.count))
    background = first.cluster._background
    assert background is not None
    listed = 0

    def untracked() -> list[IncarnationFolder]:
        nonlocal listed
        listed += 1
        return []

    monkeypatch.setattr(background.roster, "untracked", untracked)
    await place.migrator.start(MINE, 1, "n1", SPEC, None)
    await until(lambda: "mine" in first.reports("n1"))
    (pod,) = stub.objects["pods"].values()
    false = {**pod, "metadata": {**pod["metadata"], "name": "false", "uid": "false", "ownerReferences": []}}
    annotations = {**false["metadata"]["annotations"], "steepest.dev/incarnation": "7"}
    stub.put("pods", {**false, "metadata": {**false["metadata"], "annotations": annotations}})
    now = first.count["n1"]
    await until(lambda: first.count["n1"] > now + 3)

    assert listed == 0
    assert first.reports("n1")["mine"].incarnation == 1


async def test_one_process_speaks_for_a_node(place: Place, tmp_path: Path) -> None:
    """A log-collector for all nodes leaves out those that have an agent, and a second agent of a node is silent."""
    central = place.heard(adapter_on(tmp_path, NODES))
    await until(lambda: set(central.newest) == {"n1", "n2"})
    agent, twin = place.agent("n1"), place.agent("n1")
    await until(lambda: bool(agent.count) or bool(twin.count))
    speaks, is_silent = (agent, twin) if agent.count else (twin, agent)
    await _two_rounds(central)
    heard = central.count["n1"]
    await _two_rounds(central)
    assert central.count["n1"] == heard
    assert is_silent.count == {}

    await speaks.close()
    await until(lambda: "n1" in is_silent.count)


async def _two_rounds(heard: Heard) -> None:
    """Wait until a node without an agent was reported some more times."""
    now = heard.count["n2"]
    await until(lambda: heard.count["n2"] > now + 3)


async def test_a_node_whose_agent_is_gone_falls_silent_alone(place: Place) -> None:
    """The other one is reported all the time."""
    first, second = place.agent("n1"), place.agent("n2")
    await until(lambda: bool(first.count) and bool(second.count))
    await first.close()
    now = second.count["n2"]
    await until(lambda: second.count["n2"] > now + 3)

    assert "n1" not in second.newest


def test_a_claim_ends_with_its_holder(tmp_path: Path) -> None:
    """What a claim has left is removed, and never while another process takes it."""
    state = AdapterFolder(tmp_path)
    state.make()
    holder, other = NodeClaims(state), NodeClaims(state)
    assert other.claimed() == frozenset()
    assert holder.take("n1")
    assert holder.take("n1")
    assert not other.take("n1")
    assert other.claimed() == {"n1"}
    assert holder.claimed() == frozenset()
    holder.give_back()

    assert other.claimed() == frozenset()
    assert not (tmp_path / "agents" / "n1").exists()
    assert other.take("n1")
    assert not holder.take("n1")
    other.give_back()
