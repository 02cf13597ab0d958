"""What the parts of an installation are opened from: its log, in files or on Kafka, its snapshots and its nodes.

It owns the choice between files and Kafka. It must never know what is in a log, or who runs over it.

A state folder whose system was started on Kafka says so in ``kafka.json``, so that every command finds the same log; the
environment (``STEEPEST_KAFKA`` and its like) comes before it, and is the only place for secrets, but for the password of a
broker of the folder's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from steepest.app.state_folder import Installation, StateFolder
from steepest.cluster.local.cluster import LocalCluster, LocalNode
from steepest.cluster.port import Cluster
from steepest.errors import InputError, RecordingError
from steepest.log.base import Log, TopicPartition
from steepest.log.files.atomic_write import write_atomically
from steepest.log.files.file_log import FileLog
from steepest.log.kafka.kafka_settings import KafkaSettings, kafka_settings
from steepest.log.kafka.kafka_snapshots import LogSnapshots
from steepest.log.snapshot_store import FolderSnapshots, SnapshotStore
from steepest.runtime.assignment import Assignment

SNAPSHOTS = TopicPartition("snapshots")

SYSTEM = "system"
"""Stands for the service's name in what ``steepest up`` itself keeps."""


class KafkaPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``kafka.json``: where the log is.

    Attributes:
        own: Whether the broker is one of the installation's own, in ``kafka/``, which ``steepest up`` starts and stops.
    """

    bootstrap: str
    prefix: str = ""
    own: bool = False


def kafka_place(folder: StateFolder) -> KafkaPlace | None:
    """What the folder says of its log; None where it is in files.

    Raises:
        RecordingError: It is damaged.
    """
    path = _place_file(folder)
    try:
        return msgspec.json.decode(path.read_bytes(), type=KafkaPlace)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise RecordingError(f"{path} cannot be read: {error}", hint="restore it, or name the cluster again") from error


def remember_kafka(folder: StateFolder, place: KafkaPlace) -> None:
    """Let every command that names the folder find its log."""
    write_atomically(_place_file(folder), msgspec.json.format(msgspec.json.encode(place), indent=2))


def kafka_of(folder: StateFolder, environ: Mapping[str, str] = os.environ) -> KafkaSettings | None:
    """How the folder's log is reached on Kafka; None where it is in files.

    Raises:
        InputError: A setting is wrong.
        LogUnavailableError: The folder's own broker was never started, or is another user's.
        RecordingError: ``kafka.json`` is damaged.
    """
    place = kafka_place(folder)
    if place is None or environ.get("STEEPEST_KAFKA"):
        return kafka_settings(environ)
    if place.own:
        from steepest.log.kafka.broker import own_broker  # noqa: PLC0415 - it loads psutil, which few commands need

        prefix = environ.get("STEEPEST_KAFKA_PREFIX", place.prefix)
        return msgspec.structs.replace(own_broker(kafka_folder(folder)), prefix=prefix)
    return kafka_settings({"STEEPEST_KAFKA_PREFIX": place.prefix, **environ}, place.bootstrap)


def open_log(folder: StateFolder, installation: Installation, *, read_only: bool = False) -> Log:
    """The installation's log. Clients of Kafka connect when first used.

    Raises:
        InputError: A setting is wrong.
        LogUnavailableError, RecordingError: The folder's log cannot be opened.
    """
    kafka = kafka_of(folder)
    partitions = installation.layout.partitions()
    if kafka is not None:
        from steepest.log.kafka.kafka_log import KafkaLog  # noqa: PLC0415 - the client is an extra, and takes long to import

        return KafkaLog(kafka, {**partitions, SNAPSHOTS.topic: 1})
    return FileLog.open(folder.log, read_only=True) if read_only else FileLog(folder.log, partitions)


def open_snapshots(folder: StateFolder, log: Log, service: str = "") -> SnapshotStore:
    """Where a service keeps its snapshots; without a name, the system itself."""
    if kafka_of(folder) is not None:
        return LogSnapshots(log, SNAPSHOTS, service or SYSTEM)
    return FolderSnapshots(folder.snapshots / service)


def shares_of(folder: StateFolder) -> Callable[[Any], Assignment] | None:
    """How processes of one service share a decider's topic: on Kafka by a consumer group, in files not at all."""
    kafka = kafka_of(folder)
    if kafka is None:
        return None
    from steepest.log.kafka.consumer_group import KafkaAssignment  # noqa: PLC0415 - as above

    return lambda decider: KafkaAssignment(kafka, decider.topic, decider.name)


def open_cluster(folder: StateFolder, installation: Installation) -> Cluster:
    """The nodes of an installation: Docker engines, or emulated ones. They are connected when first called.

    Raises:
        InputError: The client that engines need is not installed.
    """
    if any(node.engine for node in installation.nodes):
        return _docker_cluster(folder, installation)
    return LocalCluster(
        folder.cluster,
        [LocalNode(node.name, node.capacity) for node in installation.nodes],
        installation.pool,
        heartbeat_s=installation.heartbeat_ms / 1000,
        retention=installation.ended,
    )


def _docker_cluster(folder: StateFolder, installation: Installation) -> Cluster:
    try:
        from steepest.cluster.docker import Allowed, DockerCluster, DockerNode  # noqa: PLC0415 - the client is an extra
    except ImportError as error:
        raise InputError(
            f"the nodes are Docker engines, and their client is missing: {error}", hint="install steepest[docker]"
        ) from error
    return DockerCluster(
        folder.cluster,
        [
            DockerNode(name=node.name, url=node.engine, capacity=node.capacity, tls=node.tls or None)
            for node in installation.nodes
        ],
        installation.pool,
        image=installation.image,
        allowed=Allowed(tuple(map(Path, installation.folders)), folder.root),
        soft_limits=installation.soft_limits,
        heartbeat_s=installation.heartbeat_ms / 1000,
        retention=installation.ended,
    )


def kafka_folder(folder: StateFolder) -> Path:
    """Where a broker of the folder's own keeps its data and its password."""
    return folder.root / "kafka"


def _place_file(folder: StateFolder) -> Path:
    return folder.root / "kafka.json"
