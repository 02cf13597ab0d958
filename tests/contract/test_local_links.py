"""Emulated nodes that are joined by links: gangs work over them as over loopback, and what crosses them takes its time."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.contract.test_local_cluster import LocalHarness
from tests.harness.contracts.cluster_gangs import GangContract
from tests.harness.contracts.cluster_harness import PATIENCE_S, ClusterFixture, ClusterHarness

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.local import LocalCluster, LocalNode
from steepest.cluster.local.links import NodeLinks, why_not
from steepest.cluster.port import GangPlace, ReplicaId, ReplicaSpec
from steepest.errors import ClusterError
from steepest.events.common import Resources

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"no links here ({why_not()}): run as root, and `make links`")

MBIT = 20
SERVER = (sys.executable, "-m", "steepest_lab.jobs.gangs.parameter_server", "--work", "0.1")
PARAMETERS = 64 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10
STEP_BITS = 8 * (4 + 8) * PARAMETERS
"""What a worker gets and sends in a step: single and double precision."""


class TestGangsOverLinks(GangContract):
    """What every cluster promises of gangs holds over links too."""

    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[LocalHarness]:
        """An empty cluster."""
        async with contextlib.aclosing(LocalHarness(tmp_path, "duty-cycle", events=True, link_mbit=MBIT)) as it:
            await it.come_back()
            yield it

    @pytest.fixture
    def stage(self, harness: ClusterHarness) -> ClusterFixture:
        """The harness, with the acts that most tests share."""
        return ClusterFixture(harness)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    """Two nodes, joined by links."""
    nodes = [LocalNode("one", Resources(cpu_m=1000)), LocalNode("two", Resources(cpu_m=1000))]
    made = LocalCluster(tmp_path, nodes, "test", heartbeat_s=0.1, cpu="duty-cycle", link_mbit=MBIT)
    yield made
    await made.close()
    assert left(NodeLinks(tmp_path, ["one", "two"], MBIT)) == []


def left(links: NodeLinks) -> list[str]:
    """The namespaces of a folder that are there."""
    prefix = links.entering("one")[1].removeprefix("--net=/run/netns/").rsplit("-", 1)[0]
    return [path.name for path in Path("/run/netns").glob(f"{prefix}-*")]


async def trained_s(cluster: LocalCluster, state: Path, job: str, nodes: tuple[str, ...], steps: int) -> float:
    """Train a server and a worker on these nodes for so many steps; the seconds from the first one to the last."""
    for rank, node in enumerate(nodes):
        place = GangPlace(role="worker", role_index=rank, rank=rank, world_size=len(nodes), nodes=nodes)
        spec = msgspec.structs.replace(ReplicaSpec(command=(*SERVER, "--steps", str(steps))), gang=place)
        await cluster.start(ReplicaId(job, rank), 1, node, spec, None)
    await cluster.wait_for_step(ReplicaId(job), 1, at_least=steps, timeout_s=PATIENCE_S)
    for rank in range(len(nodes)):
        await cluster.stop(ReplicaId(job, rank), 1, grace_s=PATIENCE_S)
    reports = AdapterFolder(state).incarnation(ReplicaId(job), 1).reports.read_text().splitlines()
    at_ms = [json.loads(report)["at_ms"] for report in reports]
    return float(at_ms[-1] - at_ms[0]) / 1000


def sent_bytes(tmp_path: Path, node: str) -> int:
    """What a node has sent over its link."""
    links = NodeLinks(tmp_path, ["one", "two"], MBIT)
    counter = "/sys/class/net/uplink/statistics/tx_bytes"
    # Another network namespace needs a /sys of its own, which `ip netns exec` mounts.
    space = links.entering(node)[1].removeprefix("--net=/run/netns/")
    done = subprocess.run(["ip", "netns", "exec", space, "cat", counter], capture_output=True, text=True, check=True)
    return int(done.stdout)


async def test_a_gang_that_spans_nodes_takes_as_long_as_the_link_needs(cluster: LocalCluster, tmp_path: Path) -> None:
    """On one node nothing of it crosses the link; on two, each step takes at least what its bytes take on the link."""
    steps = 6
    await trained_s(cluster, tmp_path, "together", ("one", "one"), steps)
    assert sent_bytes(tmp_path, "one") < 0.1 * steps * STEP_BITS / 8

    took_s = await trained_s(cluster, tmp_path, "apart", ("one", "two"), steps)

    assert sent_bytes(tmp_path, "one") > steps * 4 * PARAMETERS
    assert sent_bytes(tmp_path, "two") > steps * 8 * PARAMETERS
    assert took_s > 0.9 * (steps - 1) * STEP_BITS / (MBIT * 1e6)  # a full bucket passes some of it without delay


async def test_the_next_adapter_finds_the_links_of_those_that_run(cluster: LocalCluster, tmp_path: Path) -> None:
    """An adapter that leaves while a gang runs takes no link away from it; the next one removes them after its end."""
    nodes = ("one", "two")
    for rank, node in enumerate(nodes):
        place = GangPlace(role="worker", role_index=rank, rank=rank, world_size=2, nodes=nodes)
        spec = msgspec.structs.replace(ReplicaSpec(command=(*SERVER, "--steps", "100000")), gang=place)
        await cluster.start(ReplicaId("job", rank), 1, node, spec, None)
    await cluster.wait_for_step(ReplicaId("job"), 1, at_least=1, timeout_s=PATIENCE_S)
    await cluster.close()
    assert len(left(NodeLinks(tmp_path, ["one", "two"], MBIT))) == 3
    capacities = [LocalNode(name, Resources(cpu_m=1000)) for name in nodes]
    after = LocalCluster(tmp_path, capacities, "test", heartbeat_s=0.1, cpu="duty-cycle", link_mbit=MBIT)
    try:
        status = await after.lookup(ReplicaId("job"))
        assert status is not None
        await after.wait_for_step(ReplicaId("job"), 1, at_least=(status.step or 0) + 2, timeout_s=PATIENCE_S)
        for rank in range(2):
            await after.stop(ReplicaId("job", rank), 1, grace_s=PATIENCE_S)
    finally:
        await after.close()


def test_links_that_cannot_be_made_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a step of making them fails, the error says which, and the namespaces made before it are gone."""
    links = NodeLinks(tmp_path, ["one", "two"], MBIT)
    monkeypatch.setattr(NodeLinks, "_shape", lambda *_: (_ for _ in ()).throw(ClusterError("no tbf", code="no-links")))

    with pytest.raises(ClusterError, match="no tbf"):
        links.make()
    assert left(links) == []
