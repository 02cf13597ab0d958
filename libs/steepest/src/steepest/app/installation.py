"""The parts of an installation: its log, in files or on Kafka, its snapshots and its nodes.

It owns the choice between files and Kafka. It must never know what is in a log, or who runs over it.

A state folder whose system was started on Kafka says so in ``kafka.json``, so that every command finds the same log. The
only password there is that of a broker of the folder's own.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from steepest.app.settings.tree import Settings
from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.clock import SystemClock
from steepest.cluster.data_source import DataSource, data_source
from steepest.cluster.port import Cluster
from steepest.errors import InputError, LogUnavailableError
from steepest.events.common import User, is_name
from steepest.events.registry import BY_POOL
from steepest.events.requests import JobSpec
from steepest.log.base import Log, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.log.files.recording import change_recording
from steepest.log.kafka.kafka_settings import AUTO, KafkaSettings
from steepest.log.snapshot_store import FolderSnapshots, SnapshotStore
from steepest.runtime.layout import Layout
from steepest.runtime.recovery.log_identity import open_partitions
from steepest.runtime.service import StreamDeciderType

if TYPE_CHECKING:
    from steepest.log.kafka.kafka_snapshots import SeenSnapshots
    from steepest.log.kafka.kafka_topics import Change
    from steepest.runtime.sharing.assignment import Assignment
    from steepest.view.cluster_view import ClusterView

SNAPSHOTS = TopicPartition("snapshots")

SYSTEM = "system"
"""Stands for the service's name in what ``steepest up`` itself keeps."""


def kafka_of(settings: Settings) -> KafkaSettings | None:
    """How the log is reached on Kafka; None where it is in files.

    Raises:
        LogUnavailableError: The folder's own broker does not run, or is another user's.
    """
    kafka = settings.kafka
    if kafka.bootstrap != AUTO:
        return kafka if kafka.bootstrap else None
    from steepest.log.kafka.broker import Broker  # noqa: PLC0415 - it loads psutil, which few commands need

    broker = Broker(settings.folder.kafka, guarded=True)
    if not broker.answers():
        root = settings.folder.root
        raise LogUnavailableError(
            f"the log of {root} is on a Kafka broker of its own, which runs only while the system does, and now does not",
            code="broker-down",
            hint=f"start both with `steepest up --state {root}`",
        )
    return broker.settings(kafka.prefix)


def checked(installation: Installation, pool: str, view: ClusterView, job: str, spec: JobSpec) -> JobSpec:
    """A job's description as the doors of a pool take it, with the number of its priority class.

    Raises:
        InputError: A job of this name and description can never run there.
    """
    from steepest.policies import submission  # noqa: PLC0415 - few commands submit
    from steepest.view.spec_rules import what_is_wrong  # noqa: PLC0415 - likewise

    spec = submission.with_priority(spec, view.parameters)
    if wrong := next(what_is_wrong(spec), None):
        raise InputError(wrong)
    if installation.kubernetes(pool) and submission.may_be_users(job):
        raise InputError(
            f"{job}: names that end with a dot and eight hexadecimal digits are those of users' objects",
            hint="give the job another name",
        )
    if installation.selector(pool) is None:  # nodes that are listed never change
        nodes = {node.name: node.capacity for node in installation.nodes_of(pool)}
        submission.refuse_what_never_fits(spec, nodes, isolated=installation.isolates(pool))
    return spec


def login_name() -> str:
    """The user as whom this process runs, by its id and not by its environment; the id where it has no name."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = ""
    return name if name and is_name(name, User) else str(os.getuid())


def open_log(settings: Settings, installation: Installation, *, read_only: bool = False) -> Log:
    """The installation's log. Clients of Kafka connect when first used.

    Raises:
        LogUnavailableError, RecordingError: The folder's log cannot be opened.
    """
    kafka, folder = kafka_of(settings), settings.folder
    partitions = installation.layout.partitions()
    if kafka is not None:
        from steepest.log.kafka.kafka_log import KafkaLog  # noqa: PLC0415 - the client is an extra, and takes long to import

        return KafkaLog(kafka, {**partitions, SNAPSHOTS.topic: 1})
    if read_only:
        return FileLog.open(folder.log, read_only=True)
    if installation.pools and folder.has_log_in_files:
        change_recording(folder.log, {topic: partitions[topic] for topic in BY_POOL})
    return FileLog(folder.log, partitions)


def open_snapshots(settings: Settings, log: Log, service: str = "", seen: SeenSnapshots | None = None) -> SnapshotStore:
    """Where a service keeps its snapshots; without a name, the system. Stores with the same ``seen`` read together."""
    if settings.kafka.bootstrap:
        from steepest.log.kafka.kafka_snapshots import LogSnapshots  # noqa: PLC0415 - with files it is not needed

        store = LogSnapshots(log, SNAPSHOTS, service or SYSTEM, seen)
        if not settings.agent.node:
            return store
        from steepest.app.agents.one_writer import OneWriter  # noqa: PLC0415 - only agents need it

        return OneWriter(store, settings.folder.agents)
    return FolderSnapshots(settings.folder.snapshots / service)


def shares_of(settings: Settings, layout: Layout) -> Callable[[StreamDeciderType], Assignment] | None:
    """How processes of one service share a decider's topic: on Kafka by a consumer group, in files not at all."""
    kafka = kafka_of(settings)
    if kafka is None:
        return None
    from steepest.log.kafka.consumer_group import KafkaAssignment  # noqa: PLC0415 - as above

    return lambda decider: KafkaAssignment(kafka, layout.of_topic(decider.topic), decider.name)


def pool_share_of(settings: Settings, layout: Layout, service: str) -> Assignment | None:
    """How processes of a service share the pools: as above. A process that is for one pool shares nothing.

    A node's agent has the pools of its node.

    Raises:
        InputError: An agent is not for an installation like this one.
    """
    if settings.agent.node:
        from steepest.app.agents.node_pools import NodePools  # noqa: PLC0415 - the cluster's client is an extra

        return NodePools(settings.agent.node, settings.folder.read())
    kafka = kafka_of(settings)
    if kafka is None or settings.pool is not None:
        return None
    from steepest.log.kafka.consumer_group import KafkaAssignment  # noqa: PLC0415 - as above

    return KafkaAssignment(kafka, layout.of_topic("cluster"), f"{service}-pools")


async def apply_topics(kafka: KafkaSettings, layout: Layout, replication: int | None = None) -> list[Change]:
    """Make the topics of a layout what they should be, and give every new partition its identity.

    Raises:
        InputError: A topic that holds records would have to get another number of partitions.
        LogUnavailableError: The cluster does not do it.
    """
    from steepest.log.kafka.kafka_log import KafkaLog  # noqa: PLC0415 - as above
    from steepest.log.kafka.kafka_topics import KafkaTopics  # noqa: PLC0415 - as above

    partitions = layout.partitions()
    changes = await KafkaTopics(kafka, partitions, replication).apply()
    log = KafkaLog(kafka, partitions)
    try:
        await open_partitions(log, layout, SystemClock())
    finally:
        await log.close()
    return changes


@contextmanager
def running_cluster(settings: Settings) -> Iterator[KafkaSettings]:
    """How the log is reached, for as long as its broker runs if that is the folder's own.

    Raises:
        InputError: Java or the broker's jars are missing.
        LogUnavailableError: The broker does not start.
    """
    kafka = settings.kafka
    if kafka.bootstrap != AUTO:
        yield kafka
        return
    from steepest.log.kafka.broker import Broker  # noqa: PLC0415 - as above

    broker = Broker(settings.folder.kafka, home=Path(kafka.home), guarded=True)
    broker.start()
    try:
        yield broker.settings(kafka.prefix)
    finally:
        broker.stop()


def open_cluster(folder: StateFolder, installation: Installation, pool: str, agent: str = "") -> Cluster:
    """The nodes of a pool: Docker engines, or emulated ones. They are connected when first called.

    Args:
        folder: The state folder.
        installation: What it is.
        pool: The pool.
        agent: The node of a Kubernetes cluster that this process is the agent of: then it is the only one.

    Raises:
        InputError: The client that engines need is not installed, or there is no such pool.
    """
    folder, nodes = folder.of_pool(installation, pool), installation.nodes_of(pool)
    if installation.kubernetes(pool):
        return _kubernetes_cluster(folder, installation, pool, nodes, agent)
    if any(node.engine for node in nodes):
        return _docker_cluster(folder, installation, pool, nodes)
    from steepest.cluster.local.cluster import LocalCluster, LocalNode  # noqa: PLC0415 - few commands need it
    from steepest.cluster.nvml import driver_of  # noqa: PLC0415 - as above

    return LocalCluster(
        folder.cluster,
        [LocalNode(node.name, node.capacity) for node in nodes],
        pool,
        heartbeat_s=installation.heartbeat_ms / 1000,
        retention=installation.ended,
        data=_data_of(installation),
        link_mbit=installation.link_mbit,
        driver=driver_of(sum(node.capacity.gpus for node in nodes)),
        keep_all=installation.system_checkpoints is not False,
    )


class OpenedClusters(Mapping[str, Cluster]):
    """The nodes of each pool, opened when they are first asked for: most services act on none.

    So a service that only decides needs neither the state folder nor the rights of one that acts.
    """

    def __init__(self, folder: StateFolder, installation: Installation, pools: Sequence[str], agent: str = "") -> None:
        self._folder = folder
        self._installation = installation
        self._pools = pools
        self._agent = agent
        self._opened: dict[str, Cluster] = {}

    def __getitem__(self, pool: str) -> Cluster:
        if pool not in self._pools:
            raise KeyError(pool)
        if pool not in self._opened:
            self._opened[pool] = open_cluster(self._folder, self._installation, pool, self._agent)
        return self._opened[pool]

    def __iter__(self) -> Iterator[str]:
        return iter(self._pools)

    def __len__(self) -> int:
        return len(self._pools)

    async def close(self) -> None:
        """Close those that were opened."""
        for cluster in self._opened.values():
            await cluster.close()


def _data_of(installation: Installation) -> DataSource | None:
    return data_source(installation.storage) if installation.storage else None


def _kubernetes_cluster(
    folder: StateFolder, installation: Installation, pool: str, nodes: Sequence[NodeSpec], agent: str
) -> Cluster:
    try:
        from steepest.cluster.kubernetes import KubernetesCluster, address  # noqa: PLC0415 - the client is an extra
        from steepest.cluster.kubernetes.agent.node_sources import AgentNode  # noqa: PLC0415 - as above
        from steepest.cluster.kubernetes.kinds.known import kinds  # noqa: PLC0415 - as above
    except ImportError as error:
        raise InputError(
            f"the nodes are Kubernetes', and its client is missing: {error}", hint="install steepest[kubernetes]"
        ) from error
    at, selector = address.address(installation.kubernetes(pool)), installation.selector(pool)
    return KubernetesCluster(
        folder.cluster,
        [(node.name, node.capacity) for node in nodes] if selector is None else selector,
        pool,
        namespace=at.namespace,
        claim=at.claim,
        volume=at.volume,
        image=installation.image,
        heartbeat_s=installation.heartbeat_ms / 1000,
        retention=installation.ended,
        data=_data_of(installation),
        agent=AgentNode(agent) if agent else None,
        has_agents=installation.has_agents,
        kinds=kinds(installation.kinds),
        namespaces=installation.namespaces,
        system_checkpoints=bool(installation.system_checkpoints),
    )


def _docker_cluster(folder: StateFolder, installation: Installation, pool: str, nodes: Sequence[NodeSpec]) -> Cluster:
    try:
        from steepest.cluster.docker import Allowed, DockerCluster, DockerNode  # noqa: PLC0415 - the client is an extra
    except ImportError as error:
        raise InputError(
            f"the nodes are Docker engines, and their client is missing: {error}", hint="install steepest[docker]"
        ) from error
    from steepest.cluster.nvml import driver_of  # noqa: PLC0415 - few commands need it

    hosts = [
        DockerNode(name=node.name, url=node.engine, capacity=node.capacity, tls=node.tls or None) for node in nodes
    ]
    return DockerCluster(
        folder.cluster,
        hosts,
        pool,
        image=installation.image,
        allowed=Allowed(tuple(map(Path, installation.folders)), folder.root.absolute()),
        soft_limits=installation.soft_limits,
        host_network=installation.host_network,
        system_checkpoints=bool(installation.system_checkpoints),
        heartbeat_s=installation.heartbeat_ms / 1000,
        retention=installation.ended,
        data=_data_of(installation),
        driver=driver_of(sum(host.capacity.gpus for host in hosts if host.is_here)),
    )
