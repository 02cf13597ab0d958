"""The demands of a cluster contract suite on the adapter under test, and the acts that its tests share.

It owns the harness that each adapter's tests implement. It must never know what is promised: that is in the suites.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest

from steepest.cluster.port import Cluster, GangPlace, ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.errors import RefusedError
from steepest.events.common import CheckpointRef, Resources
from steepest.events.heartbeat import ReplicaReport, ReplicaState

JOB = ReplicaId("mnist")
OTHER = ReplicaId("resnet")
PATIENCE_S = 60.0
"""How long to wait for what must come; it ends a hopeless test, and nothing is measured by it."""


class ClusterHarness(abc.ABC):
    """An adapter under test, and what a test does behind its back.

    Attributes:
        nodes: At least two nodes, and what they have; each has at least 200 millicores.
        pool: Their pool.
        caps_memory: Whether nodes can cap memory.
        confines: Whether a job has less of the machine than the adapter's user.
        cluster: The adapter in use now.
    """

    nodes: dict[str, Resources]
    pool: str
    caps_memory: bool = False
    confines: bool = False
    cluster: Cluster

    @abc.abstractmethod
    def job(self, *arguments: str) -> ReplicaSpec:
        """A spec that runs ``tests.harness.contracts.contract_job`` with these arguments."""

    @abc.abstractmethod
    async def leave(self) -> None:
        """Let the adapter vanish as if its process were killed: it is not closed, and what it runs goes on."""

    @abc.abstractmethod
    async def come_back(self) -> None:
        """Make a new adapter of the same cluster and put it in ``cluster``."""

    @abc.abstractmethod
    async def kill(self, replica: ReplicaId) -> None:
        """SIGKILL the first process of a running replica."""

    @abc.abstractmethod
    async def lose(self, replica: ReplicaId) -> None:
        """End a running replica so that its exit status is lost."""

    @abc.abstractmethod
    async def end_place(self, replica: ReplicaId) -> None:
        """End the place of a running replica in order, as the drain of a node or the shutdown of a machine does."""

    @abc.abstractmethod
    async def aclose(self) -> None:
        """End everything."""


@contextlib.contextmanager
def refused(code: str) -> Iterator[None]:
    """The block must be refused with this code."""
    with pytest.raises(RefusedError) as caught:
        yield
    assert caught.value.code == code
    assert caught.value.definite


class ClusterFixture:
    """A harness with the acts that most tests share.

    Attributes:
        here: A node.
        there: Another node.
    """

    def __init__(self, harness: ClusterHarness) -> None:
        self.harness = harness
        self.here, self.there = list(harness.nodes)[:2]

    @property
    def cluster(self) -> Cluster:
        """The adapter in use now."""
        return self.harness.cluster

    async def train(self, *arguments: str, replica: ReplicaId = JOB, incarnation: int = 1, node: str = "") -> None:
        """Start the job and wait until it trains."""
        spec = self.harness.job(*arguments)
        await self.cluster.start(replica, incarnation, node or self.here, spec, None)
        await self.reach(1, replica=replica, incarnation=incarnation)

    async def start_gang(
        self,
        nodes: Sequence[str],
        *arguments: str,
        job: str = JOB.job,
        incarnation: int = 1,
        ranks: Sequence[int] | None = None,
        restore: CheckpointRef | None = None,
    ) -> None:
        """Start a gang with a replica on each of these nodes, the same node twice where it is named twice.

        ``ranks``: only these of its replicas.
        """
        for rank in range(len(nodes)) if ranks is None else ranks:
            place = GangPlace(role="worker", role_index=rank, rank=rank, world_size=len(nodes), nodes=tuple(nodes))
            spec = msgspec.structs.replace(self.harness.job(*arguments), gang=place)
            await self.cluster.start(ReplicaId(job, rank), incarnation, nodes[rank], spec, restore)

    async def use_on(self, node: str, holds: Callable[[dict[ReplicaId, int]], bool]) -> dict[ReplicaId, int]:
        """The use of each replica on a node by six heartbeats, in no particular unit, as soon as it is as it must be.

        The first four heartbeats are not counted: they may be of the time before. A machine where others take the CPU
        is measured up to five times.
        """
        used: dict[ReplicaId, int] = {}
        beats = 0
        async for beat in self.cluster.heartbeats():
            if beat.node != node:
                continue
            beats += 1
            for report in beat.replicas if beats > 4 else ():
                replica = ReplicaId(report.job, report.replica)
                used[replica] = used.get(replica, 0) + (report.cpu_m or 0)
            if beats == 34 or (beats > 4 and beats % 6 == 4 and holds(used)):
                break
            if beats % 6 == 4:
                used = {}
        return used

    async def reach_all(self, step: int, count: int, *, job: str = JOB.job, incarnation: int = 1) -> None:
        """Wait until every replica of a gang reports a step."""
        for index in range(count):
            await self.reach(step, replica=ReplicaId(job, index), incarnation=incarnation)

    async def reach(self, step: int, *, replica: ReplicaId = JOB, incarnation: int = 1) -> int:
        """Wait until an incarnation reports a step."""
        return await self.cluster.wait_for_step(replica, incarnation, at_least=step, timeout_s=PATIENCE_S)

    async def ask(self, request: str = "r1", *, hold_s: float = 600.0, timeout_s: float = PATIENCE_S) -> CheckpointRef:
        """Ask the job's first incarnation for a checkpoint."""
        return await self.cluster.checkpoint(JOB, 1, request=request, hold_s=hold_s, timeout_s=timeout_s)

    async def phase(self, replica: ReplicaId = JOB) -> ReplicaPhase | None:
        """The phase of a replica's newest incarnation."""
        status = await self.cluster.lookup(replica)
        return status.phase if status else None

    async def end(self, replica: ReplicaId = JOB) -> tuple[ReplicaPhase, int | None]:
        """Wait for the end of a replica; give its phase and exit status."""
        async for beat in self.cluster.heartbeats():
            if any(
                ReplicaId(report.job, report.replica) == replica and report.state != ReplicaState.RUNNING
                for report in beat.replicas
            ):
                break
        status = await self.cluster.lookup(replica)
        assert status is not None
        return status.phase, status.exit_status

    async def report(self, wanted: Callable[[ReplicaReport], bool], node: str = "") -> ReplicaReport:
        """The first report on a node that is as wanted."""
        async with contextlib.aclosing(self.cluster.heartbeats()) as beats:  # type: ignore[type-var]
            async for beat in beats:
                for found in beat.replicas if beat.node == (node or self.here) else ():
                    if wanted(found):
                        return found
        raise AssertionError("the heartbeats ended")

    def output(self, replica: ReplicaId = JOB, incarnation: int = 1) -> str:
        """The output of an incarnation so far."""
        for node in self.harness.nodes:
            for files in self.cluster.files(node):
                if (files.replica, files.incarnation) == (replica, incarnation):
                    return files.output.read_text()
        raise AssertionError(f"no files of {replica}/{incarnation}")
