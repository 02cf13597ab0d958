"""Hostile containers beside an innocent one: what they do to their folders harms only themselves."""

from __future__ import annotations

import asyncio
import os

from tests.harness.contracts.cluster_harness import PATIENCE_S
from tests.harness.docker_harness import DockerHarness
from tests.hostile.cases import TRIES, innocent

from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.events.heartbeat import ReplicaReport, ReplicaState

STEPS = 100
AT_ONCE = 8
INNOCENT = ReplicaId("innocent")
DESCRIPTORS_MOST = 200  # the client keeps connections to each engine open


async def test_hostile_containers_harm_only_themselves(harness: DockerHarness) -> None:
    """The innocent one finishes with its last step, all others end, and the adapter answers and stays small."""
    hostile = [name for name, one in TRIES.items() if not one.needs_rights]
    nodes = sorted(harness.nodes)
    starting = asyncio.Semaphore(AT_ONCE)
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208 - the names are all that is wanted

    async def start(name: str, command: tuple[str, ...]) -> None:
        async with starting:
            node = nodes[sum(name.encode()) % len(nodes)]
            await harness.cluster.start(ReplicaId(name), 1, node, ReplicaSpec(command=command), None)

    await start(INNOCENT.job, innocent(STEPS, 0.1))
    await asyncio.gather(*(start(name, TRIES[name].command(1.0)) for name in hostile))
    last = await ends(harness, {*hostile, INNOCENT.job})

    assert (last[INNOCENT.job].state, last[INNOCENT.job].exit_status) == (ReplicaState.EXITED, 0)
    assert last[INNOCENT.job].step == STEPS
    status = await harness.cluster.lookup(INNOCENT)
    assert status is not None
    assert (status.phase, status.step) == (ReplicaPhase.EXITED, STEPS)
    for name in hostile:
        await harness.cluster.forget(name)
    assert harness.cluster.silence_s() < PATIENCE_S
    assert len(os.listdir("/dev/fd")) < before + DESCRIPTORS_MOST  # noqa: PTH208 - as above


async def ends(harness: DockerHarness, wanted: set[str]) -> dict[str, ReplicaReport]:
    """The last report of each job."""
    last: dict[str, ReplicaReport] = {}
    async for beat in harness.cluster.heartbeats():
        for report in beat.replicas:
            if report.state is not ReplicaState.RUNNING:
                last[report.job] = report
        if wanted <= last.keys():
            return last
    raise AssertionError(sorted(wanted - last.keys()))
