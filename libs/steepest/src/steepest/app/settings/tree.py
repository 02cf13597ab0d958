"""Every setting of every process, with its type, its default and what it means.

It owns names and bounds. It must never read anything: :mod:`steepest.app.settings.reading` does. Help texts, the
documentation and the example file are made from this tree (:mod:`steepest.app.settings.rows`).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from steepest.app.settings.amounts import node, queue_limits, user_limits
from steepest.app.settings.gateway import GatewaySettings
from steepest.app.settings.kinds import Kind, Namespace, Positive
from steepest.app.settings.remote import ClientSettings
from steepest.app.state_folder import StateFolder
from steepest.events.common import Count, Name
from steepest.log.base import RETENTION_MS
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.mqtt.settings import MqttSettings
from steepest.policies.names import PlacementName, PolicyName, QueuePolicyName, ReactionName

MOST_PROCESSES = 64
"""The settings of one service."""

Port = Annotated[int, Meta(ge=0, le=65535)]
Alpha = Annotated[float, Meta(gt=0)]
Adapter = Annotated[
    str,
    Meta(
        pattern=r"^(local|docker(=\S+)?|kubernetes=\S+)$",
        examples=["local", "docker", "docker=gpu1,tcp://gpu2:2376", "kubernetes=training/shared:/mnt/shared"],
    ),
]
Node = Annotated[str, Meta(examples=["n1=0.5", "n1=2:4Gi"], extra={"check": node})]
TopicLimit = Annotated[
    str, Meta(pattern=r"^(cluster|loss|heartbeats|dead-letters)=[0-9]{1,18}$(?!\n)", examples=["loss=604800000"])
]
QueueLimit = Annotated[str, Meta(examples=["paper:replicas=8:cpu=4:gpus=2"], extra={"check": queue_limits})]
UserLimit = Annotated[str, Meta(examples=["alice:jobs=100:memory=64Gi:gpus=2"], extra={"check": user_limits})]


def scale(text: str) -> tuple[str, int]:
    """The service and its number of processes that ``NAME=NUMBER`` says.

    Raises:
        ValueError: It says neither.
    """
    name, _, number = text.partition("=")
    if not (name and number.isdecimal() and 1 <= int(number) <= MOST_PROCESSES):
        raise ValueError(f"{text!r}: write it like categorizer=2")
    return name, int(number)


Scale = Annotated[str, Meta(examples=["categorizer=2"], extra={"check": scale})]


def means(description: str, **extra: Any) -> Meta:
    """The meaning of a setting. ``extra``: ``flag``, its option; ``variable``, where it has another name."""
    return Meta(description=description, extra=extra)


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a process answers probes and serves its metrics."""

    port: Annotated[
        Port | None, means("Serve /metrics, /healthz and /readyz there; 0 takes any free port.", flag="--metrics")
    ] = None
    host: Annotated[str, means("On which of the machine's addresses.", flag="--metrics")] = "127.0.0.1"
    names: Annotated[
        tuple[str, ...],
        means("Further names in requests, next to addresses, localhost and the machine's own name."),
    ] = ()
    jobs: Annotated[
        int, Meta(ge=0, le=1000), means("Running jobs of each pool that have metrics with their names; 0: none.")
    ] = 0


class TracingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether traces are exported."""

    endpoint: Annotated[
        str,
        means(
            "Send spans there by OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces; needs the extra `tracing`."
            " Empty: nowhere."
        ),
    ] = ""


class NotifySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who gets messages about findings of jobs, by mail, chat or webhook (docs/watching.md)."""

    file: Annotated[
        str, means("A TOML file of targets, closed to other users; needs the extra `notify`. Empty: no messages.")
    ] = ""
    page: Annotated[
        str,
        Meta(pattern=r"^(https?://\S+)?$(?!\n)", examples=["https://steepest.example"]),
        means("Where people reach the gateway's page: messages link to it. Empty: no links."),
    ] = ""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The node of a Kubernetes cluster on which a log-collector runs, where each node has one of its own."""

    node: Annotated[str, means("The node's name: only its jobs are read and measured, from the node's own files.")] = ""


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The nodes of a new state folder, which keeps them."""

    adapter: Annotated[
        Adapter | None,
        means(
            "Emulated nodes (local), Docker engines (a host is unix://…, tcp://… or reached by SSH), or those of a cluster.",
            flag="--cluster",
        ),
    ] = None
    nodes: Annotated[
        tuple[Node, ...],
        means("Names and sizes; default: this machine, with nine tenths of its cores and memory.", flag="--node"),
    ] = ()
    emulate: Annotated[
        bool, means("Four uneven nodes that share this machine's cores, instead of this machine.", flag="--emulate")
    ] = False
    image: Annotated[str, means("For jobs that name none, on Docker engines.", flag="--image")] = "steepest-base"
    soft_limits: Annotated[
        bool, means("On Docker engines: CPU limits are weights, which leave nothing idle.", flag="--soft-limits")
    ] = False
    host_network: Annotated[
        bool | None,
        means("On Docker engines: let jobs of several replicas have their machine's network.", flag="--host-network"),
    ] = None
    system_checkpoints: Annotated[
        bool | None,
        means("Let jobs have keepers, which save unchanged programs.", flag="--system-checkpoints"),
    ] = None
    storage: Annotated[
        str,
        means(
            "The storage server that jobs read their data from, as http://HOST:PORT/PATH; what each reads is counted.",
            flag="--storage",
        ),
    ] = ""
    folders: Annotated[
        tuple[str, ...],
        means(
            "On Docker engines: the folders that jobs may have; default: where `up` made the state folder.",
            flag="--folder",
        ),
    ] = ()
    kinds: Annotated[
        tuple[Kind, ...],
        means(
            "On Kubernetes: kinds of users' objects besides Job that are scheduled; default: as before.", flag="--kind"
        ),
    ] = ()
    namespaces: Annotated[
        tuple[Namespace, ...],
        means(
            "On Kubernetes: further namespaces whose users' objects are scheduled; default: as before.",
            flag="--namespace",
        ),
    ] = ()
    heartbeat_ms: Annotated[
        Positive | None, means("Period of the nodes' heartbeats; default: 500.", flag="--heartbeat")
    ] = None
    link_mbit: Annotated[
        Positive | None,
        means(
            "Rate of the links that join emulated nodes (Linux, root), in Mbit/s; default: none.", flag="--link-mbit"
        ),
    ] = None


class ParameterSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters to put in force in the pool. Without a value, what the log holds stays in force."""

    alpha: Annotated[Alpha | None, means("SpeCon's growth threshold α; of a new pool: 0.01.", flag="--alpha")] = None
    interval_ms: Annotated[
        Positive | None,
        means("Length of the interval in which growth is measured; of a new pool: 30000.", flag="--interval"),
    ] = None
    normalisation: Annotated[
        Literal["settled", "max", "none"] | None,
        means("The divisor of growth; of a new pool: settled. max, as published, keeps a spike for good."),
    ] = None
    policy: Annotated[
        PolicyName | None, means("Who moves jobs, and who limits their CPU; of a new pool: steepest.", flag="--policy")
    ] = None
    placement: Annotated[
        PlacementName | None, means("Which node an arrival gets; of a new pool: spread.", flag="--placement")
    ] = None
    queueing: Annotated[
        QueuePolicyName | None, means("In which order jobs are placed; of a new pool: fifo.", flag="--queueing")
    ] = None
    blocking: Annotated[
        bool | None,
        means("Whether a job without room holds back those behind it; of a new pool: false.", flag="--blocking"),
    ] = None
    preempt: Annotated[
        bool | None,
        means(
            "Whether less urgent jobs are suspended for more urgent ones, under priority; of a new pool: false.",
            flag="--preempt",
        ),
    ] = None
    min_run_ms: Annotated[
        Count | None,
        means("How long a job runs before it may be suspended; of a new pool: 60000.", flag="--min-run"),
    ] = None
    max_suspensions: Annotated[
        Count | None,
        means("How often a job may be suspended; of a new pool: 5.", flag="--max-suspensions"),
    ] = None
    on_hung: Annotated[
        ReactionName | None,
        means("The reaction to a job that hangs; of a new pool: notify.", flag="--on-hung"),
    ] = None
    on_diverged: Annotated[
        ReactionName | None,
        means("The reaction to a job whose loss diverges; of a new pool: notify.", flag="--on-diverged"),
    ] = None
    on_idle: Annotated[
        ReactionName | None,
        means("The reaction to a job that uses nothing for long; of a new pool: notify.", flag="--on-idle"),
    ] = None
    drain_slow: Annotated[
        bool | None,
        means(
            "Whether a node whose jobs are slow for long is closed, and left by jobs that gain; of a new pool: false.",
            flag="--drain-slow",
        ),
    ] = None
    queue_limits: Annotated[
        tuple[QueueLimit, ...],
        means(
            "The most that the jobs of a queue hold together, by queue; of a new pool: no limits.", flag="--queue-limit"
        ),
    ] = ()
    user_limits: Annotated[
        tuple[UserLimit, ...],
        means("Likewise the jobs of a user, or of each one (`*`); of a new pool: no limits.", flag="--user-limit"),
    ] = ()
    half_life_ms: Annotated[
        Positive | None,
        means("In what time a user's use counts half, under fair; of a new pool: 86400000.", flag="--half-life"),
    ] = None


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The retention of a log in files, as Kafka's topics have it by settings of these names."""

    ms: Annotated[
        tuple[TopicLimit, ...],
        means("How long records are kept, by topic; a topic that is not named keeps all (docs/recordings.md)."),
    ] = tuple(f"{topic}={ms}" for topic, ms in RETENTION_MS.items())
    bytes: Annotated[tuple[TopicLimit, ...], means("How large each partition is at least left, by topic.")] = ()

    def of(self, topic: str, now_ms: int) -> tuple[int, float]:
        """The time before which a topic's records are too old, and the bytes that a partition keeps."""
        ms, bytes_ = (dict(one.split("=") for one in limits) for limits in (self.ms, self.bytes))
        return max(0, now_ms - int(ms[topic])) if topic in ms else 0, float(bytes_.get(topic, math.inf))


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which services `steepest up` runs over Kafka, each as a process of its own."""

    only: Annotated[tuple[str, ...], means("Run only these services here; default: all.", flag="--service")] = ()
    scale: Annotated[tuple[Scale, ...], means("Processes of a service, where it is not one.", flag="--scale")] = ()

    @property
    def scales(self) -> dict[str, int]:
        """Processes by service."""
        return dict(scale(one) for one in self.scale)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tree. A section is a field whose type is a struct; its docstring says what it is about."""

    state_dir: Annotated[str, means("The state folder of the installation.", flag="--state")] = ".steepest"
    installation_file: Annotated[
        str,
        means("A TOML file that describes the installation, where services share no folder (docs/kubernetes.md)."),
    ] = ""
    pool: Annotated[
        Name | None,
        means(
            "The pool that a command is about (default: the first), or that a process works for (default: all).",
            flag="--pool",
        ),
    ] = None
    stop_at_eof: Annotated[
        bool, means("Stop when standard input ends, because the process that started this one is gone.")
    ] = False
    metrics: MetricsSettings = MetricsSettings()
    tracing: TracingSettings = TracingSettings()
    notify: NotifySettings = NotifySettings()
    kafka: KafkaSettings = KafkaSettings()
    mqtt: MqttSettings = MqttSettings()
    agent: AgentSettings = AgentSettings()
    cluster: ClusterSettings = ClusterSettings()
    parameters: ParameterSettings = ParameterSettings()
    retention: RetentionSettings = RetentionSettings()
    services: ServiceSettings = ServiceSettings()
    gateway: GatewaySettings = GatewaySettings()
    client: ClientSettings = ClientSettings()

    @property
    def folder(self) -> StateFolder:
        """The state folder."""
        root = Path(self.state_dir)
        if not self.installation_file:
            return StateFolder(root)
        from steepest.app.settings.mounted_installation import MountedFolder  # noqa: PLC0415 - few installations have one

        return MountedFolder(root, Path(self.installation_file))

    @property
    def pool_folder(self) -> StateFolder:
        """The state folder, with what is the pool's own.

        Raises:
            InputError, RecordingError: A pool is named, and the folder is no installation or is damaged.
        """
        return self.folder if self.pool is None else self.folder.of_pool(self.folder.read(), self.pool)

    @property
    def pools(self) -> tuple[str, ...]:
        """The pool that is named, or all of the installation.

        Raises:
            InputError, RecordingError: The folder is no installation, or is damaged.
        """
        return self.folder.read().layout.pools if self.pool is None else (self.pool,)
