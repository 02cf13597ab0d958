"""What a container is to us: its name and labels, how it is made, and what its state says of an incarnation.

It owns the translation between the port's words and the engine's. It must never call an engine.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker
import msgspec
from docker.errors import NotFound
from docker.types import LogConfig
from msgspec import UnsetType

from steepest.cluster.docker.mounts import Mounts
from steepest.cluster.fence import environment
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.observation import Observation
from steepest.cluster.port import ReplicaPhase, ReplicaSpec
from steepest.events.common import CheckpointRef, Resources

PERIOD_US = 100_000
MIN_QUOTA_US = 1000  # the kernel takes no less
WHOLE_SHARES = 1024  # the weight that an engine gives a container by itself
MIN_SHARES = 2  # the kernel takes no less, and an engine takes 0 for no wish
LABEL = "steepest.cluster"
MOST_PROCESSES = 4096
"""Processes and threads of a container: data loaders have hundreds, and an engine's machine takes some ten thousand."""

NO_PROGRAM = (126, 127)  # what an engine says of a program that may not be executed, or is not there
UNSEEN = 255  # what an engine says where nobody saw the end, and what some programs exit with
_SIGNALS = range(129, 193)  # 128 + the signal, as shells have it
_MIB = 1 << 20


class ContainerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``container.json``: written before the container runs its first instruction.

    Attributes:
        id: The container's.
        engine: The engine's, so that another one at the same address proves nothing.
    """

    id: str
    engine: str


def record_of(folder: IncarnationFolder) -> Path:
    """Where an incarnation's container is on record."""
    return folder.path / "container.json"


def container_of(folder: IncarnationFolder) -> str | None:
    """The id of an incarnation's container; None where none was ever started."""
    record = folder.read(record_of(folder), ContainerRecord)
    return record.id if record else None


def label_of(state: AdapterFolder) -> str:
    """What marks the containers of a state folder: drawn once and kept in it, so folders of one path on two machines differ.

    Raises:
        OSError: It cannot be kept.
    """
    kept = state.path / "label"
    with contextlib.suppress(FileNotFoundError):
        return kept.read_text()
    state.make()
    # What a folder of an earlier version has started is marked by the folder's path.
    has_jobs = any(state.jobs.iterdir()) or any(state.ended.iterdir())
    drawn = hashlib.sha256(str(state.path.resolve()).encode()).hexdigest()[:12] if has_jobs else secrets.token_hex(6)
    aside = kept.with_name(f".label.{secrets.token_hex(4)}")
    aside.write_text(drawn)
    with contextlib.suppress(FileExistsError):  # another process has drawn one
        kept.hardlink_to(aside)
    aside.unlink()
    return kept.read_text()


def ours(client: docker.APIClient, container: str, label: str) -> Mapping[str, Any]:
    """What an engine says of a container of ours, by its name or id.

    Raises:
        NotFound: There is none; one of that name that is somebody else's is none.
    """
    said: Mapping[str, Any] = client.inspect_container(container)
    if (said["Config"]["Labels"] or {}).get(LABEL) != label:
        raise NotFound(f"{container} is a container of somebody else")
    return said


def name_of(label: str, folder: IncarnationFolder) -> str:
    """The name of an incarnation's container. An engine has each name once, so it runs each incarnation once."""
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
    """A CPU cap as the kernel's quota for each ``PERIOD_US``; −1 is none.

    No control group may have more than its parent (version 1), so a cap beyond the node's capacity is none.
    """
    if limit_m is None or limit_m >= capacity_m:
        return -1
    return max(limit_m * PERIOD_US // 1000, MIN_QUOTA_US)


def shares(limit_m: int | None, capacity_m: int) -> int:
    """A CPU limit as a weight: against one of a container without a limit, as the limit is to the node."""
    if limit_m is None or limit_m >= capacity_m:
        return WHOLE_SHARES
    return max(limit_m * WHOLE_SHARES // capacity_m, MIN_SHARES)


def cpu_settings(limit_m: int | None, capacity_m: int, *, soft: bool) -> dict[str, Any]:
    """What an engine is told of a CPU limit: a quota, which is a hard cap, or, where it is to be soft, a weight."""
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
    """What ``docker update`` is told. No engine takes a memory limit away, so none is all that the node has.

    Args:
        cpu_limit_m: In millicores; None: none.
        memory_limit_mib: In MiB; None: none; UNSET: as it is.
        has: The container's ``HostConfig``.
        capacity: The node's.
        soft: The CPU limit is a weight.
    """
    told = cpu_settings(cpu_limit_m, capacity.cpu_m, soft=soft)
    if memory_limit_mib is None and has.get("Memory"):
        memory_limit_mib = capacity.memory_mib
    if isinstance(memory_limit_mib, int):
        limit = memory_limit_mib * _MIB
        told |= {"mem_limit": limit, "memswap_limit": limit}
    return told


def creation(
    client: docker.APIClient,
    *,
    state: AdapterFolder,
    folder: IncarnationFolder,
    spec: ReplicaSpec,
    image: str,
    restore: CheckpointRef | None,
    network: str | None,
    capacity: Resources,
    soft: bool,
    label: str,
    mounts: Mounts,
) -> dict[str, Any]:
    """The arguments of ``create_container``. Its program gets no right that a program needs for training."""
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
        "environment": environment(state, folder, spec, restore),
        "working_dir": spec.working_dir,
        "user": mounts.user,
        "host_config": client.create_host_config(
            mounts=mounts.all,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            pids_limit=MOST_PROCESSES,
            # The engine must neither start anything again nor throw lines away before they were copied.
            restart_policy={"Name": "no"},
            log_config=LogConfig(type=LogConfig.types.JSON),
            init=True,  # the kernel keeps SIGTERM from a first process that does not ask for it
            **limits,
        ),
    }


def observed(state: Mapping[str, Any], *, end_was_seen: bool) -> Observation:
    """What a container's ``State`` says.

    Args:
        state: As ``docker inspect`` has it.
        end_was_seen: Whether the engine told of its end as it happened, so that a status of 255 is the program's own.
    """
    if state["Status"] == "created":
        return Observation(phase=ReplicaPhase.STARTING, began=False)
    if state["Status"] not in {"exited", "dead"}:
        return Observation(phase=ReplicaPhase.RUNNING)
    status = int(state["ExitCode"])
    if status == UNSEEN and not end_was_seen:
        return Observation(phase=ReplicaPhase.GONE, reason="the engine did not see how it ended")
    reason = "it ran out of memory" if state.get("OOMKilled") else str(state.get("Error") or "")
    return Observation(
        phase=ReplicaPhase.EXITED, exit_status=128 - status if status in _SIGNALS else status, reason=reason[:400]
    )
