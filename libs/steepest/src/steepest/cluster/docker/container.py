"""Maps an incarnation to a container: its name and labels, the arguments of its creation, the meaning of its state.

It owns the translation between the port's vocabulary and the engine's. It must never call an engine, except to inspect a
container (``ours``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import docker
import msgspec
from docker.errors import NotFound
from docker.types import DeviceRequest, LogConfig
from msgspec import UnsetType

from steepest.cluster.container_paths import VARIABLES
from steepest.cluster.data_source import VARIABLE, DataSource
from steepest.cluster.docker.mounts import Mounts
from steepest.cluster.docker.output import LOG_OPTIONS
from steepest.cluster.fence import environment
from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.gang_variables import GangAddresses
from steepest.cluster.observation import ANSWERS, Observation, end, status_of
from steepest.cluster.port import ReplicaPhase, ReplicaSpec
from steepest.events.common import CheckpointRef, Resources

PERIOD_US = 100_000
MIN_QUOTA_US = 1000  # the kernel's minimum
WHOLE_SHARES = 1024  # an engine's default weight
MIN_SHARES = 2  # the kernel's minimum; an engine treats 0 as "not set"
LABEL = "steepest.cluster"
MOST_PROCESSES = 4096
"""Processes and threads of a container: data loaders have hundreds, and a machine supports some ten thousand."""

NO_PROGRAM = (126, 127)  # an engine's status for a program that may not be executed, or is missing
UNSEEN = 255  # an engine's status for an end that it did not see; some programs exit with it too
_MIB = 1 << 20


class ContainerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``container.json``: written before the container runs its first instruction.

    Attributes:
        id: The container's id.
        engine: The engine's id, so that another engine at the same address is not mistaken for it.
        image: The name of the image that its job asks for; empty: the default one.
    """

    id: str
    engine: str
    image: str = ""


def record_of(folder: IncarnationFolder) -> Path:
    """The path of the record of an incarnation's container."""
    return folder.path / "container.json"


def recorded(folder: IncarnationFolder) -> ContainerRecord | None:
    """The record of an incarnation's container; None if none was ever started."""
    return folder.read(record_of(folder), ContainerRecord)


def container_of(folder: IncarnationFolder) -> str | None:
    """The id of an incarnation's container; None if none was ever started."""
    record = recorded(folder)
    return record.id if record else None


def ours(client: docker.APIClient, container: str, label: str) -> Mapping[str, Any]:
    """Inspect a container of this state folder, by its name or id.

    Raises:
        NotFound: There is none, or the container of that name has another label.
    """
    found: Mapping[str, Any] = client.inspect_container(container)
    if (found["Config"]["Labels"] or {}).get(LABEL) != label:
        raise NotFound(f"{container} does not belong to this state folder")
    return found


def name_of(label: str, folder: IncarnationFolder) -> str:
    """The name of an incarnation's container. Names are unique in an engine, so it runs each incarnation at most once."""
    return f"steepest-{label}-{folder.replica.job}.{folder.replica.index}.{folder.incarnation}"


def labels_of(label: str, folder: IncarnationFolder) -> dict[str, str]:
    """The labels of an incarnation's container."""
    return {
        LABEL: label,
        "steepest.job": folder.replica.job,
        "steepest.replica": str(folder.replica.index),
        "steepest.incarnation": str(folder.incarnation),
    }


def quota_us(limit_m: int | None, capacity_m: int) -> int:
    """A CPU cap as the kernel's quota per ``PERIOD_US``; −1 means no cap.

    In version 1 a control group may not exceed its parent, so a cap beyond the node's capacity means no cap.
    """
    if limit_m is None or limit_m >= capacity_m:
        return -1
    return max(limit_m * PERIOD_US // 1000, MIN_QUOTA_US)


def shares(limit_m: int | None, capacity_m: int) -> int:
    """A CPU limit as a weight: its ratio to the weight of an unlimited container is the limit's ratio to the capacity."""
    if limit_m is None or limit_m >= capacity_m:
        return WHOLE_SHARES
    return max(limit_m * WHOLE_SHARES // capacity_m, MIN_SHARES)


def cpu_settings(limit_m: int | None, capacity_m: int, *, soft: bool) -> dict[str, Any]:
    """An engine's settings for a CPU limit: a quota (a hard cap), or a weight if ``soft``."""
    if soft:
        return {"cpu_shares": shares(limit_m, capacity_m)}
    return {"cpu_period": PERIOD_US, "cpu_quota": quota_us(limit_m, capacity_m)}


def updates(
    cpu_limit_m: int | None,
    memory_limit_mib: int | UnsetType | None,
    has: Mapping[str, Any],
    capacity: Resources,
    *,
    soft: bool,
) -> dict[str, Any]:
    """The arguments of ``docker update``. No engine can remove a memory limit, so None becomes the node's memory.

    Args:
        cpu_limit_m: In millicores; None: no limit.
        memory_limit_mib: In MiB; None: no limit; UNSET: unchanged.
        has: The container's ``HostConfig``.
        capacity: The node's capacity.
        soft: The CPU limit is a weight.
    """
    settings = cpu_settings(cpu_limit_m, capacity.cpu_m, soft=soft)
    if memory_limit_mib is None and has.get("Memory"):
        memory_limit_mib = capacity.memory_mib
    if isinstance(memory_limit_mib, int):
        limit = memory_limit_mib * _MIB
        settings |= {"mem_limit": limit, "memswap_limit": limit}
    return settings


def creation(
    client: docker.APIClient,
    *,
    folder: IncarnationFolder,
    spec: ReplicaSpec,
    image: str,
    restore: CheckpointRef | None,
    network: str | None,
    capacity: Resources,
    soft: bool,
    label: str,
    mounts: Mounts,
    addresses: GangAddresses | None,
    gpus: tuple[int, ...] | None,
    requests_gpus: bool,
    data: DataSource | None = None,
) -> dict[str, Any]:
    """The arguments of ``create_container``. It drops all capabilities: training needs none."""
    if gpus and requests_gpus:
        devices = [DeviceRequest(device_ids=[str(gpu) for gpu in gpus], capabilities=[["gpu"]])]
        gpus = tuple(range(len(gpus)))  # a container counts its own from 0
    else:
        devices = None
    memory = capacity.memory_mib * _MIB
    limits = cpu_settings(spec.cpu_limit_m, capacity.cpu_m, soft=soft) | {"mem_limit": memory, "memswap_limit": memory}
    if network is not None:
        limits["network_mode"] = network
    return {
        "image": image,
        "entrypoint": list(spec.command[:1]),
        "command": list(spec.command[1:]),
        "name": name_of(label, folder),
        "labels": labels_of(label, folder),
        "environment": environment(folder, spec, restore, addresses=addresses, gpus=gpus)
        | VARIABLES
        | ({} if data is None else {VARIABLE: data.url}),
        "working_dir": spec.working_dir,
        "user": mounts.user,
        "host_config": client.create_host_config(
            mounts=mounts.all,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            pids_limit=MOST_PROCESSES,
            restart_policy={"Name": "no"},
            log_config=LogConfig(type=LogConfig.types.JSON, config=dict(LOG_OPTIONS)),
            device_requests=devices,
            init=True,  # the kernel does not deliver SIGTERM to a pid 1 without a handler
            **limits,
        ),
    }


def observed(state: Mapping[str, Any], is_outlived: Callable[[], bool]) -> Observation:
    """The observation that a container's ``State`` stands for.

    Args:
        state: From ``docker inspect``.
        is_outlived: Whether its engine surely runs on since it ended. It is asked only where the status may come from an
            engine that was stopped, or that did not see the end.
    """
    if state["Status"] == "created":
        return Observation(phase=ReplicaPhase.STARTING, began=False)
    if state["Status"] not in {"exited", "dead"}:
        return Observation(phase=ReplicaPhase.RUNNING)
    status = status_of(int(state["ExitCode"]))
    is_doubtful = status == UNSEEN or status in ANSWERS
    place = "its engine was stopped, or did not see how it ended" if is_doubtful and not is_outlived() else ""
    return end(status, str(state.get("Error") or ""), place=place, is_memory=bool(state.get("OOMKilled")))
