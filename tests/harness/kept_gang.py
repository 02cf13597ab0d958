"""Unmodified gangs whose replicas all lie on one of two nodes, kept by CRIU: moved, and compared with unmoved ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from tests.harness.kept_job import ENV, NODES, PATIENCE_S, missing
from tests.harness.waiting import until

from steepest.cluster.local import LocalCluster, LocalNode
from steepest.cluster.port import GangPlace, ReplicaId, ReplicaSpec, ReplicaStatus, Stopped
from steepest.events.common import CheckpointRef, Resources

WORLD = 3
CHIEF = ReplicaId("job")


class KeptGang:
    """The replicas of one job, all on the same of two nodes."""

    def __init__(self, state: Path, command: Sequence[str], world: int = WORLD) -> None:
        self.state = state
        self.command = tuple(command)
        self.world = world
        self.incarnation = 0
        self.saved: CheckpointRef | None = None
        nodes = [LocalNode(name, Resources(cpu_m=2000, memory_mib=4096)) for name in NODES]
        self.cluster = LocalCluster(state, nodes, "pool", heartbeat_s=0.1, keep_all=True)
        self.replicas = [ReplicaId("job", rank) for rank in range(world)]

    async def start(self) -> None:
        """Start its next incarnation, on the other node, from its newest image."""
        self.incarnation += 1
        node = NODES[(self.incarnation - 1) % 2]
        await asyncio.gather(*(self._start(replica, (node,) * self.world) for replica in self.replicas))

    async def _start(self, replica: ReplicaId, nodes: tuple[str, ...]) -> None:
        place = GangPlace(
            role="worker", role_index=replica.index, rank=replica.index, world_size=self.world, nodes=nodes
        )
        spec = ReplicaSpec(
            command=self.command,
            working_dir=str(self.state.parent),
            env=ENV,
            requests=Resources(cpu_m=100),
            gang=place,
        )
        await self.cluster.start(replica, self.incarnation, nodes[replica.index], spec, self.saved)

    async def save(self, request: str = "") -> CheckpointRef:
        """Ask its chief's keeper for an image of all."""
        name = request or f"r{self.incarnation}"
        return await self.cluster.checkpoint(CHIEF, self.incarnation, request=name, hold_s=60.0, timeout_s=PATIENCE_S)

    async def stop(self) -> list[Stopped]:
        """Stop all replicas."""
        return await asyncio.gather(
            *(self.cluster.stop(replica, self.incarnation, grace_s=10.0) for replica in self.replicas)
        )

    async def resume(self) -> None:
        """Start it, and wait until its chief says from where it continues."""
        await self.start()
        await self.cluster.wait_for_step(CHIEF, self.incarnation, at_least=0, timeout_s=PATIENCE_S)

    async def move(self) -> None:
        """Save it, stop it, and restore it on the other node."""
        self.saved = await self.save()
        assert [end.exit_status for end in await self.stop()] == [85] * self.world
        await self.resume()

    async def statuses(self) -> list[ReplicaStatus]:
        """What the cluster knows of each replica."""
        found = [await self.cluster.lookup(replica, verify=False) for replica in self.replicas]
        return [status for status in found if status is not None]

    async def ended(self) -> list[ReplicaStatus]:
        """The ends of all replicas."""
        await until(lambda: all(map(self._is_over, self.replicas)), within_s=PATIENCE_S)
        return await self.statuses()

    def _is_over(self, replica: ReplicaId) -> bool:
        folder = self.state / "jobs" / replica.job / str(replica.index) / str(self.incarnation)
        return (folder / "exit.json").exists() or (folder / "gone.json").exists()

    async def printed(self, lines: int) -> None:
        """Wait until its chief has printed so many lines."""
        await until(lambda: self.outputs[0].count("\n") >= lines, within_s=PATIENCE_S)

    @property
    def outputs(self) -> list[str]:
        """What the incarnations of each replica have printed, one after the other."""
        files = sorted(self.cluster.files(), key=lambda each: each.incarnation)
        return [
            "".join(each.output.read_text() for each in files if each.replica == replica and each.output.exists())
            for replica in self.replicas
        ]


@contextlib.asynccontextmanager
async def kept_gang(state: Path, command: Sequence[str], world: int = WORLD) -> AsyncIterator[KeptGang]:
    """It runs, and is stopped in the end; the test is skipped where no job can be kept."""
    if why := missing(state):
        pytest.skip(why)
    gang = KeptGang(state, command, world)
    try:
        await gang.start()
        yield gang
    finally:
        await asyncio.gather(*(gang.cluster.stop(one, gang.incarnation, grace_s=0.0) for one in gang.replicas))
        await gang.cluster.close()


async def unmoved(folder: Path, command: Sequence[str], world: int = WORLD) -> list[str]:
    """What each replica prints where nothing moves it."""
    async with kept_gang(folder / "unmoved", command, world) as gang:
        assert [end.exit_status for end in await gang.ended()] == [0] * world
        return gang.outputs
