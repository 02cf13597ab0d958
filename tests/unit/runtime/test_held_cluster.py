"""Acts on a cluster by a process that may have lost the pool to another one."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from tests.harness.system.fake_cluster import FakeCluster
from tests.harness.system.fake_training import PROGRAM
from tests.harness.system.rig import POOL, Rig

from steepest.app.held_cluster import ACTS, held_cluster
from steepest.cluster.port import Cluster, ReplicaId
from steepest.runtime.service import HeldPool

LOOKS = {"lookup", "wait_for_step", "heartbeats", "node_terms", "silence_s", "files", "metrics_folder", "close"}
"""The calls that change nothing."""


def test_every_call_of_the_port_is_an_act_or_a_look() -> None:
    """A new call has to be one of them before it can be made."""
    calls = {name for name, _ in inspect.getmembers(Cluster, inspect.isfunction) if not name.startswith("_")}

    assert calls == ACTS | LOOKS
    assert not ACTS & LOOKS


@pytest.mark.parametrize("name", sorted(ACTS))
async def test_an_act_of_a_process_that_lost_the_pool_never_reaches_the_cluster(name: str, rig: Rig) -> None:
    """It does not fail either: a failure would be reported, and who works on the pool now reports for itself."""
    reached: list[str] = []

    class Watched:
        def __getattr__(self, call: str) -> object:
            async def act(*_: object) -> None:
                reached.append(call)

            act.__name__ = call
            return act

    async def is_held() -> bool:
        return holds

    holds = True
    cluster = held_cluster(Watched(), HeldPool(POOL, is_held))  # type: ignore[arg-type]
    await getattr(cluster, name)(ReplicaId("a"), 1)
    holds = False
    late = asyncio.ensure_future(getattr(cluster, name)(ReplicaId("a"), 1))
    await rig.clock.sleep(3600)

    assert reached == [name]
    assert not late.done()
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)


async def test_looks_need_no_pool(rig: Rig) -> None:
    """What is known of the nodes does not belong to one process."""

    async def is_held() -> bool:
        raise AssertionError

    cluster = held_cluster(FakeCluster(rig.nodes, POOL, rig.clock), HeldPool(POOL, is_held))

    assert await cluster.lookup(ReplicaId(PROGRAM)) is None
    assert cluster.silence_s() == 0.0
