"""A whole system in a test: a log and nodes in memory, and processes that can be killed, paused and started again.

It owns putting them together. What is run are the real services, found as ``steepest up`` finds them, and the real runtime.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.harness.memory_log import MemoryLog, MemorySnapshots
from tests.harness.system.fake_cluster import EveryHook, FakeCluster
from tests.harness.system.fake_nodes import FakeNodes
from tests.harness.system.fake_training import PROGRAM
from tests.harness.system.faulty_log import FaultyLog, MortalSnapshots
from tests.harness.system.life import Life
from tests.harness.virtual_time import VirtualClock

from steepest.app.context import ServiceContext
from steepest.app.installed_services import installed_services
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import Installation
from steepest.clock import Clock
from steepest.cluster.port import Cluster
from steepest.collector.heartbeats import HeartbeatSender
from steepest.errors import UndecodableError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.invariants import Status, check
from steepest.log.base import Log, Record, TopicPartition
from steepest.log.snapshot_store import SnapshotStore
from steepest.replay.replay import Replay
from steepest.runtime.decode import new_record, received
from steepest.runtime.layout import Layout
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import HeldPool, Service
from steepest.view.cluster_view import ClusterView, fold_all

POOL = "default"
AT = TopicPartition("cluster")


async def read_all(log: Log, at: TopicPartition = AT) -> list[Record]:
    """All records of a partition, from the first to the present end."""
    end = await log.end(at)
    reader = log.reader({at: 0})
    records: list[Record] = []
    while len(records) < end:
        records.extend(await reader.poll())
    await reader.close()
    return records


NO_SETTINGS = Settings()
"""All as they are by default."""


async def _always() -> bool:
    return True


HELD = HeldPool(POOL, _always)
"""The rig's pool, in a process that has it for good."""


async def events_of(log: Log, at: TopicPartition = AT) -> list[Received[Any]]:
    """All events of a partition in which everything can be read."""
    return [received(record) for record in await read_all(log, at)]


async def _readable(log: Log, at: TopicPartition) -> list[Received[Any]]:
    found = []
    for record in await read_all(log, at):
        with contextlib.suppress(UndecodableError):
            found.append(received(record))
    return found


class RigProcess:
    """Some services as one process.

    Attributes:
        log: The log as this process sees it; set ``log.hook`` to make it fail.
        cluster: The nodes as this process sees them.
        runtime: What runs.
    """

    def __init__(self, runtime: Runtime, log: FaultyLog, cluster: FakeCluster, life: Life) -> None:
        self.runtime = runtime
        self.log = log
        self.cluster = cluster
        self._life = life
        self._stop = asyncio.Event()
        self.task = asyncio.ensure_future(runtime.run(self._stop))

    @property
    def view(self) -> ClusterView:
        """The pool as this process sees it."""
        return self.runtime.pools[POOL].view

    def kill(self) -> None:
        """SIGKILL: nothing that it does has an effect any more."""
        self._life.pause()

    def pause(self) -> None:
        """SIGSTOP."""
        self._life.pause()

    def wake(self) -> None:
        """SIGCONT."""
        self._life.wake()

    async def stop(self) -> None:
        """SIGTERM: let it end as it likes to.

        Raises:
            Exception: The error that ended it before.
        """
        self._stop.set()
        await self.task

    async def aclose(self) -> None:
        """End it however it is, for the test is over."""
        self.task.cancel()
        self._life.wake()
        await asyncio.gather(self.task, return_exceptions=True)


def context_on(
    state: Path,
    log: Log,
    cluster: Cluster,
    clock: Clock,
    metrics: Metrics | None = None,
    *,
    settings: Settings = NO_SETTINGS,
) -> ServiceContext:
    """The context of a service with these parts; ``state`` replaces the state folder of the settings."""
    return ServiceContext(
        settings=msgspec.structs.replace(settings, state_dir=str(state)),
        installation=Installation(pool=POOL, nodes=()),
        log=log,
        clusters={POOL: cluster},
        clock=clock,
        metrics=metrics or Metrics(),
    )


class Rig:
    """A log, nodes, and processes. Make it within a virtual loop.

    Attributes:
        log: The log as it is.
        nodes: The nodes as they are.
    """

    def __init__(
        self,
        folder: Path,
        nodes: Mapping[str, int | Resources],
        *,
        clock: Clock | None = None,
        settings: Settings = NO_SETTINGS,
    ) -> None:
        """Nodes by name, with their CPU in millicores; the settings of the services."""
        self.folder = folder
        self._settings = settings
        self.clock = clock or VirtualClock()
        self.layout = Layout(pools=(POOL,), loss_partitions=2)
        self.log = MemoryLog(self.layout.partitions())
        capacities = {name: one if isinstance(one, Resources) else Resources(cpu_m=one) for name, one in nodes.items()}
        self.nodes = FakeNodes(capacities, folder / "nodes", self.clock)
        self.snapshots: dict[str, MemorySnapshots] = {}
        self._processes: list[RigProcess] = []

    def start(
        self,
        *services: str | Service,
        snapshots: SnapshotStore | None = None,
        every: EveryHook | None = None,
    ) -> RigProcess:
        """Start a process of these services, by name or as they are.

        Args:
            services: What runs in it.
            snapshots: Where it keeps them; None: nowhere that outlives it.
            every: Done to every call of the cluster.
        """
        life = Life()
        log = FaultyLog(self.log.reopen(), life)
        cluster = FakeCluster(self.nodes, POOL, self.clock, every=every, life=life)
        metrics = Metrics()
        runtime = Runtime(
            [self._built(service, log, cluster, metrics) for service in services],
            log=log,
            layout=self.layout,
            snapshots=MortalSnapshots(snapshots or MemorySnapshots(), life),
            clock=self.clock,
            metrics=metrics,
        )
        process = RigProcess(runtime, log, cluster, life)
        self._processes.append(process)
        return process

    def beats(self) -> Service:
        """Heartbeats of all nodes, where no log-collector sends them."""
        cluster = FakeCluster(self.nodes, POOL, self.clock)
        return Service(name="heartbeat-sender", effectors=lambda _: (HeartbeatSender(cluster),))

    def _built(self, service: str | Service, log: Log, cluster: FakeCluster, metrics: Metrics) -> Service:
        if isinstance(service, Service):
            return service
        state = self.folder / "state"
        context = context_on(state, log, cluster, self.clock, metrics, settings=self._settings)
        return installed_services()[service](context)

    # --- appending -----------------------------------------------------------------------------------------------------

    async def append(self, *events: c.ClusterEvent) -> None:
        """Append events to the pool's log, as a user or an operator does."""
        await self.log.append([new_record(AT, POOL, event, self.clock.now_ms()) for event in events])

    async def configure(self, parameters: PoolParameters) -> None:
        """Put parameters in force, with all flags, as in a new pool."""
        await self.append(c.PoolConfigured(parameters=parameters))

    async def submit(
        self, job: str, *arguments: str, cpu_m: int = 100, node: str | None = None, retries: int = 0
    ) -> None:
        """Submit a training in memory; ``arguments`` are its flags."""
        spec = c.JobSpec(
            command=(PROGRAM, *arguments), requests=Resources(cpu_m=cpu_m), first_node=node, retries=retries
        )
        await self.append(c.JobSubmitted(job=job, request=f"submit-{job}", spec=spec))

    async def cancel(self, job: str) -> None:
        """Ask for a job's end."""
        await self.append(c.JobCancelRequested(job=job, request=f"cancel-{job}"))

    async def migrate(self, job: str, source: str, target: str, *, plan: str = "move-1", incarnation: int = 1) -> None:
        """Plan a move, as the node-scorer does."""
        await self.append(
            c.MigrationPlanned(
                plan=plan,
                job=job,
                incarnation=incarnation,
                source=source,
                target=target,
                kind=c.MoveKind.REALLOCATION,
                because=c.Because(rule="a test says so"),
            )
        )

    # --- looking -----------------------------------------------------------------------------------------------------

    async def events(self) -> list[Received[c.ClusterEvent]]:
        """Everything in the pool's log."""
        return await events_of(self.log)

    async def of_type(self, kind: type[Any]) -> list[Any]:
        """All events of one type."""
        return [one.event for one in await self.events() if isinstance(one.event, kind)]

    async def view(self) -> ClusterView:
        """The pool as its log says it is."""
        return fold_all(await self.events())

    async def broken(self) -> Sequence[str]:
        """What the invariants find broken or cannot judge, and what the nodes have seen that must never be."""
        losses = [one for at in self.layout.of_topic("loss") for one in await _readable(self.log, at)]
        verdicts = check(await self.events(), losses)
        found = [f"{one.checker}: {one.message}" for one in verdicts if one.status is not Status.HOLDS]
        found += [f"ran twice: {moment}" for moment in self.nodes.witness.doubled]
        return found + [f"more than the node has: {moment}" for moment in self.nodes.witness.overfull]

    async def aclose(self) -> None:
        """End everything, for the test is over."""
        for process in self._processes:
            await process.aclose()
        self.nodes.end_all()


async def replayed(
    folder: Path, nodes: Mapping[str, int | Resources], play: Callable[[Rig], Awaitable[None]], decider: str
) -> tuple[list[Received[Any]], Sequence[str], int]:
    """The log of what is played, what is broken, and how many decisions replay differently; a decider decides in it."""
    async with contextlib.aclosing(Rig(folder, nodes)) as rig:
        await play(rig)
        report = await Replay(rig.log).run()
        assert decider in report.by_decider
        return await rig.events(), await rig.broken(), report.differences
