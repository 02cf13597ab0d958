"""The processes of a world: which services each of them runs, its lives, and its death.

A process that dies by itself is started again after a second, as ``steepest up`` does. Killing is freezing (see
:mod:`tests.harness.system.life`): nothing that a killed life does has an effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from tests.faults.doors import Armed, Broker, Doors, WorldCluster, WorldLog, WorldSnapshots, WrongClock
from tests.faults.groups import Group, Member
from tests.faults.reports import Reported, ReportReader
from tests.harness.memory_log import MemorySnapshots
from tests.harness.system.fake_nodes import FakeNodes

from steepest.app.context import ServiceContext
from steepest.app.installed_services import installed_services
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import Installation, PoolSpec
from steepest.collector.heartbeats import HeartbeatSender
from steepest.errors import LogEpochError
from steepest.pool_metrics.effector import PoolMetrics
from steepest.runtime.layout import Layout
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import DeciderType, HeldPool, Service, StreamDeciderType
from steepest.view.cluster_view import ClusterView

AGENT = "log-collector"
"""The service whose files this world does not have: its effectors are made here."""

SERVICES = (
    AGENT, "categorizer", "gang-scheduler", "limit-planner", "migrator", "node-scorer", "placer", "preemption-planner",
    "rebalancer", "resizer", "worker-monitor",
)  # fmt: skip

TOPOLOGIES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "embedded": {"all": SERVICES},
    "split": {
        "deciders": ("placer", "node-scorer", "rebalancer", "limit-planner", "preemption-planner", "gang-scheduler"),
        "monitor": ("worker-monitor", "categorizer", AGENT),
        "migrator": ("migrator", "resizer"),
    },
    "doubled": {
        "deciders": ("placer", "node-scorer", "rebalancer", "limit-planner", "preemption-planner", "gang-scheduler"),
        "deciders-2": ("placer", "node-scorer", "rebalancer", "limit-planner", "preemption-planner", "gang-scheduler"),
        "monitor": ("worker-monitor", "categorizer", AGENT),
        "migrator": ("migrator", "resizer"),
        "migrator-2": ("migrator",),
    },
    "shared": {
        "deciders": ("placer", "node-scorer", "rebalancer", "limit-planner", "preemption-planner", "gang-scheduler"),
        "deciders-2": ("placer", "node-scorer", "rebalancer", "limit-planner", "preemption-planner", "gang-scheduler"),
        "monitor": ("worker-monitor", "categorizer", AGENT),
        "monitor-2": ("worker-monitor", "categorizer", AGENT),
        "migrator": ("migrator", "resizer"),
        "migrator-2": ("migrator", "resizer"),
    },
}
"""The services of each process, by its name. Replicas without a group all act, and what they write is accepted once."""

SHARING = "shared"
"""The topology whose replicas share the pools, and the partitions of other topics, out among them."""

RESTART_S = 1.0


class Site(msgspec.Struct, frozen=True):
    """What all processes share.

    Attributes:
        silent: Nodes whose heartbeats are lost.
        has_agents: Whether each node has an agent of its own.
        struck: Called with the kind of each fault that strikes.
        complain: Called with what no process may do.
        under_way: Says at which steps plans stand.
        groups: The groups of replicas, by name; None where replicas do not share.
    """

    broker: Broker
    layout: Layout
    nodes: Mapping[str, FakeNodes]
    silent: dict[str, object]
    has_agents: bool
    struck: Callable[[str], None]
    complain: Callable[[str], None]
    under_way: Callable[[], Sequence[str]]
    groups: dict[str, Group] | None = None

    def share(self, process: str, topic: str, doors: Doors) -> Member | None:
        """What one life of a process gets of a topic."""
        if self.groups is None:
            return None
        name = f"{process.removesuffix('-2')} {topic}"
        if name not in self.groups:
            self.groups[name] = Group(self.layout.of_topic(topic))
        return Member(self.groups[name], doors)


class Process:
    """One process through all its lives.

    Attributes:
        doors: Of its present life.
        runtime: What runs in it.
        built: Its services.
        is_down: Whether it was killed or stopped and not started again.
        raised: By how much its deciders' ``logic`` is raised above the present one.
        clock: Of its machine.
        deaths: How often it has died by itself, by the error.
    """

    doors: Doors
    runtime: Runtime
    built: Sequence[Service]

    def __init__(self, name: str, services: Sequence[str], site: Site) -> None:
        self.name = name
        self.services = services
        self.is_down = True
        self.raised = 0
        self.clock = WrongClock()
        self.deaths: list[BaseException] = []
        self.snapshots = MemorySnapshots()
        self._site = site
        self._lives: list[asyncio.Task[None]] = []
        self._armed: list[tuple[str, Armed]] = []
        self._doors: list[Doors] = []
        self._starts: asyncio.TimerHandle | None = None

    @property
    def views(self) -> Mapping[str, ClusterView]:
        """Each pool as this process sees it."""
        return {pool: loop.view for pool, loop in self.runtime.pools.items()}

    def start(self) -> None:
        """Begin a life, unless it lives."""
        self._stay_down()
        if not self.is_down:
            return
        self.is_down = False
        site = self._site
        doors = self.doors = Doors(site.broker, site.struck, site.under_way, self.clock, self._dies)
        for door, fault in self._armed:
            doors.arm(door, fault)
        log, metrics = WorldLog(doors), Metrics()
        context = ServiceContext(
            settings=Settings(state_dir="/nowhere"),
            installation=Installation(
                pool=site.layout.pools[0],
                nodes=(),
                pools=tuple(PoolSpec(name=pool, nodes=()) for pool in site.layout.pools[1:]),
                loss_partitions=site.layout.loss_partitions,
            ),
            log=log,
            clusters={
                pool: WorldCluster(nodes, pool, doors.clock, doors, site.silent, has_agents=site.has_agents)
                for pool, nodes in site.nodes.items()
            },
            clock=doors.clock,
            metrics=metrics,
        )
        self.built = [self._raised(self._built(service, context)) for service in self.services]
        self.runtime = Runtime(
            self.built,
            log=log,
            layout=site.layout,
            snapshots=WorldSnapshots(self.snapshots, doors),
            clock=doors.clock,
            metrics=metrics,
            pool_share=site.share(self.name, "cluster", doors),
            shares=None if site.groups is None else self._share_of,
        )
        self._stop = asyncio.Event()
        task = asyncio.ensure_future(self.runtime.run(self._stop))
        task.add_done_callback(lambda done: self._ended(done, doors))
        self._lives.append(task)
        self._doors.append(doors)

    def start_after(self, seconds: float) -> None:
        """Begin a life later, unless one has begun by then."""
        self._stay_down()
        self._starts = asyncio.get_running_loop().call_later(seconds, self.start)

    def heal(self) -> None:
        """Calls under way of all lives arrive now. The present life continues undisturbed; a process that is down starts."""
        self._armed.clear()
        for doors in self._doors:
            doors.heal()
        if not self.is_down:
            self.doors.life.wake()
        self.start()

    def _stay_down(self) -> None:
        if self._starts is not None:
            self._starts.cancel()

    def _share_of(self, kind: StreamDeciderType) -> Member:
        share = self._site.share(f"{kind.name} of {self.name}", kind.topic, self.doors)
        assert share is not None
        return share

    def kill(self) -> None:
        """SIGKILL."""
        self.doors.life.pause()
        self.is_down = True

    def _dies(self, doors: Doors, down_s: float) -> None:
        if self.doors is doors and not self.is_down:
            self.kill()
            self.start_after(down_s)

    def lose_power(self) -> None:
        """With the machines, what was on its way between them is lost, of all lives."""
        for doors in self._doors:
            doors.close()

    async def stop(self) -> None:
        """SIGTERM: end the batches, keep snapshots, and let go; SIGKILL after a while. It stays so until it is started."""
        self._stay_down()
        if self.is_down:
            return
        self._stop.set()
        doors, task = self.doors, self._lives[-1]
        await asyncio.wait([task], timeout=10.0)
        doors.life.pause()
        if self.doors is doors:
            self.is_down = True

    def arm(self, door: str, fault: Armed) -> None:
        """Let the next calls at a door meet a fault; one that waits for a step also those of later lives."""
        self.doors.arm(door, fault)
        if fault.step:
            self._armed.append((door, fault))

    def forget(self) -> None:
        """Its snapshots are lost."""
        self.snapshots = MemorySnapshots()

    async def close(self) -> None:
        """The world is over."""
        for doors in self._doors:
            doors.close()
        for task in self._lives:
            task.cancel()
        for doors in self._doors:
            doors.life.wake()
        await asyncio.gather(*self._lives, return_exceptions=True)
        self.is_down = True

    def _ended(self, task: asyncio.Task[None], doors: Doors) -> None:
        """A life is over, by itself or not; what died is started again."""
        if task.cancelled() or not doors.life.is_awake or self.doors is not doors:
            return
        error = task.exception()
        if error is None:
            return
        self.deaths.append(error)
        if not isinstance(error, LogEpochError):
            self._site.complain(f"{self.name} died of {_named(error)}")
        self.is_down = True
        doors.life.pause()
        asyncio.get_running_loop().call_later(RESTART_S, self.start)

    def _built(self, service: str, context: ServiceContext) -> Service:
        if service != AGENT:
            return _unsampled(installed_services()[service](context))

        def effectors(held: HeldPool) -> Sequence[Any]:
            nodes, cluster = self._site.nodes[held.pool], context.clusters[held.pool]
            witness = nodes.witness
            assert isinstance(witness, Reported)
            return HeartbeatSender(cluster), ReportReader(nodes, witness, context.clock, held.pool)

        return Service(name=AGENT, effectors=effectors)

    def _raised(self, service: Service) -> Service:
        """The service as a release whose deciders have another ``logic``, and decide the same."""
        if not self.raised:
            return service
        return msgspec.structs.replace(
            service,
            cluster_deciders=tuple(_later(kind, self.raised) for kind in service.cluster_deciders),
            stream_deciders=tuple(_later(kind, self.raised) for kind in service.stream_deciders),
        )


def _unsampled(service: Service) -> Service:
    """The service without gauges of its pools: they would sample the view after every tick, and no test reads them."""
    return msgspec.structs.replace(
        service, effectors=lambda held: [one for one in service.effectors_of(held) if one.name != PoolMetrics.name]
    )


def _later(kind: DeciderType[Any, Any], by: int) -> Any:
    assert isinstance(kind, type)
    return type(kind.__name__, (kind,), {"logic": kind.logic + by})


def _named(error: BaseException) -> str:
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    place = inner.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" at {place.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{place.tb_lineno}" if place else ""
    return f"{type(inner).__name__}: {inner}{where}"
