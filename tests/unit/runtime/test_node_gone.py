"""A node that never returns, and one that does after all: every service together."""

from __future__ import annotations

from tests.harness.system.fake_cluster import FakeCluster
from tests.harness.system.rig import POOL, Rig
from tests.harness.waiting import until

from steepest.collector.heartbeats import HeartbeatSender
from steepest.events import cluster as c
from steepest.events.heartbeat import NodeHeartbeat
from steepest.events.parameters import PoolParameters
from steepest.runtime.effector import Send
from steepest.runtime.service import Service

SERVICES = ("worker-monitor", "placer", "migrator", "categorizer", "node-scorer", "rebalancer")


class SomeBeats(HeartbeatSender):
    """Heartbeats of the nodes that are not silent."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(cluster)
        self.silent = ""

    async def run(self, send: Send) -> None:
        """Send until cancelled."""

        async def some(*events: NodeHeartbeat, **how: object) -> None:
            heard = [event for event in events if event.node != self.silent]
            if heard:
                await send(*heard, **how)  # type: ignore[arg-type]

        await super().run(some)  # type: ignore[arg-type]


async def test_jobs_of_a_node_that_is_gone_go_on_elsewhere_and_the_node_may_return(rig: Rig) -> None:
    """The job runs again, nothing runs twice, and the node is one to place jobs on once it is heard of again."""
    beats = SomeBeats(FakeCluster(rig.nodes, POOL, rig.clock))
    process = rig.start(*SERVICES, Service(name="beats", effectors=lambda _: (beats,)))
    await rig.configure(PoolParameters(node_lost_ms=3_000))
    await rig.submit("a", "--steps", "9000", node="n1")
    await until(lambda: "a" in process.view.jobs and process.view.jobs["a"].alive)
    beats.silent = "n1"
    rig.nodes.lose("n1")
    await until(lambda: process.view.nodes["n1"].lost)
    await rig.append(c.NodeGone(node="n1"))
    await until(lambda: process.view.jobs["a"].node == "n2" and process.view.jobs["a"].alive)
    assert "n1" not in process.view.nodes
    assert process.view.jobs["a"].retries_used == 0

    beats.silent = ""
    rig.nodes.repair("n1")
    await until(lambda: "n1" in process.view.nodes and not process.view.nodes["n1"].lost)
    await rig.submit("b", "--steps", "9000", node="n1")
    await until(lambda: "b" in process.view.jobs and process.view.jobs["b"].node == "n1")

    assert process.view.jobs["a"].incarnation == 2
    assert await rig.broken() == []
