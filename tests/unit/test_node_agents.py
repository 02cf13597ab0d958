"""An agent works for the pools of its node, and of many agents one writes snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.harness.kubernetes_stub import KubernetesStub, served
from tests.harness.memory_log import MemoryLog, MemorySnapshots
from tests.harness.waiting import until

from steepest.app.agents.node_pools import NodePools
from steepest.app.agents.one_writer import OneWriter
from steepest.app.context import ServiceContext
from steepest.app.settings.mounted_installation import MountedInstallation, read_installation
from steepest.app.settings.tree import AgentSettings, Settings
from steepest.clock import SystemClock
from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.errors import InputError
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest_services.log_collector import build

POOLS = """
cluster = "kubernetes=training/shared:/mnt/shared"
node_agents = AGENTS
[[pool]]
name = "default"
selector = "pool=default"
[[pool]]
name = "listed"
nodes = ["n2=2:8Gi"]
[[pool]]
name = "vision"
selector = "pool=vision"
"""


def installation(folder: Path, *, agents: bool = True) -> MountedInstallation:
    """Three pools; the nodes of one are listed."""
    (folder / "i.toml").write_text(POOLS.replace("AGENTS", str(agents).lower()))
    return read_installation(folder / "i.toml")


@pytest.fixture
async def stub(tmp_path: Path) -> AsyncIterator[KubernetesStub]:
    """An API server with two nodes of one pool."""
    made = KubernetesStub()
    made.node("n1", labels={"pool": "default"})
    made.node("n2", labels={"pool": "default"})
    async with served(made, tmp_path / "kubeconfig"):
        yield made


async def test_an_agent_works_for_the_pools_of_its_node(stub: KubernetesStub, tmp_path: Path) -> None:
    """Listed or by its labels, as they are; a pool is given back when the labels say another one, and only then."""
    agent = NodePools("n1", installation(tmp_path), KubernetesApi(tmp_path / "kubeconfig"))
    (first,) = await agent.take()
    assert first.partition == 0
    assert await agent.is_held(first)
    stub.node("n1", labels={"pool": "default", "rack": "7"})
    stub.node("n2", labels={"pool": "vision"})
    stub.node("n1", labels={"pool": "vision"})
    await until(agent.revoked.is_set)
    assert not await agent.is_held(first)
    agent.give_back()
    (second,) = await agent.take()

    assert second.partition == 2
    assert not agent.revoked.is_set()
    await agent.close()


async def test_a_node_may_be_of_several_pools_or_of_none(stub: KubernetesStub, tmp_path: Path) -> None:
    """Of none an agent waits until there is one."""
    agent = NodePools("n2", installation(tmp_path), KubernetesApi(tmp_path / "kubeconfig"))
    assert [at.partition for at in await agent.take()] == [0, 1]
    await agent.close()
    away = NodePools("n3", installation(tmp_path), KubernetesApi(tmp_path / "kubeconfig"))
    assert await away.take() == ()
    stub.node("n3", labels={"pool": "default"})
    await until(away.revoked.is_set)
    away.give_back()
    assert [at.partition for at in await away.take()] == [0]
    await away.close()


async def test_an_agent_waits_for_an_api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which pools are its own is not guessed."""
    monkeypatch.setattr("steepest.app.agents.node_pools._AGAIN_S", 0.01)
    stub = KubernetesStub()
    stub.node("n1", labels={"pool": "default"})
    async with served(stub, tmp_path / "kubeconfig"):
        pass
    agent = NodePools("n1", installation(tmp_path), KubernetesApi(tmp_path / "kubeconfig"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await agent.take()
    await agent.close()


def context(folder: Path, node: str, *, agents: bool) -> ServiceContext:
    """What the service is built from."""
    return ServiceContext(
        settings=Settings(state_dir=str(folder), agent=AgentSettings(node=node)),
        installation=installation(folder, agents=agents),
        log=MemoryLog({}),
        clusters={},
        clock=SystemClock(),
        metrics=Metrics(),
    )


def test_a_log_collector_is_for_one_node_where_each_has_one(tmp_path: Path) -> None:
    """One for all beside them would speak for every node, and an agent where there are none for its own."""
    with pytest.raises(InputError, match="names no node"):
        build(context(tmp_path, "", agents=True))
    with pytest.raises(InputError, match="has no agents"):
        NodePools("n1", installation(tmp_path, agents=False))
    assert build(context(tmp_path, "n1", agents=True)).name == "log-collector"
    assert build(context(tmp_path, "", agents=False)).name == "log-collector"


async def test_of_many_agents_one_writes_a_snapshot(tmp_path: Path) -> None:
    """Another one does once the writer is gone; all read them."""
    store = MemorySnapshots()
    first, second = OneWriter(store, tmp_path / "agents"), OneWriter(store, tmp_path / "agents")
    await first.save("pool-cluster-0", b"1")
    await second.save("pool-cluster-0", b"2")
    await second.save("pool-cluster-1", b"3")
    assert [await second.load(key) for key in await second.keys()] == [[b"1"], [b"3"]]
    first.close()
    await second.save("pool-cluster-0", b"4")

    assert list(await first.load("pool-cluster-0")) == [b"4"]
    second.close()
