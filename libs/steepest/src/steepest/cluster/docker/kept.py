"""Keepers in containers: what a container with one has that others have not, and the order to it.

The keeper is the container's first process, and begins as root with a few capabilities. So nothing that a job's user says
may change what it runs: its Python and CRIU come from the operator's folder, and the job alone gets the job's environment.
It owns these arguments. It must never call an engine, except to inspect an image.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker
import msgspec
from docker.types import Mount

from steepest.cluster.container_paths import HOME, KEEPER, KEEPS, ORDER, PROGRAM, TEMPORARY, order_to_keeper
from steepest.cluster.docker.host import layers_of
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.observation import write_order
from steepest.cluster.port import ReplicaSpec
from steepest.errors import ClusterError
from steepest.events.common import CheckpointRef
from steepest.keeper.kernel import CAPABILITIES, GROUP
from steepest.keeper.order import JOBS_ENVIRONMENT

_FIRST_WITH_CHECKPOINT_RESTORE = 23
_WRITABLE = 0o770


class ContainerKeeper(msgspec.Struct, frozen=True):
    """How a job is kept in a container.

    Attributes:
        home: The folder of ``make criu``, which the engine's machine has at the same path.
        temporary: The folder of the job's temporary files, which move with it.
        most_bytes: The most memory that may be saved; None: what the disk has room for.
    """

    home: Path
    temporary: Path
    most_bytes: int | None = None


class _Layers(msgspec.Struct, frozen=True):
    """The part of an order that says which files a keeper's container has."""

    files: str = ""


def layers_under(folder: IncarnationFolder) -> str:
    """A digest of the layers of the image that an incarnation runs on; empty: it has no keeper."""
    order = folder.read(folder.keeping, _Layers)
    return order.files if order is not None else ""


def close_folders(state: AdapterFolder, folder: IncarnationFolder) -> None:
    """Close a job's own folders to it: it must not write what its keeper restores.

    Raises:
        OSError: The owner cannot be changed.
    """
    for place in (folder.control, state.checkpoints(folder.replica.job)):
        os.chown(place, 0, GROUP, follow_symlinks=False)
        place.chmod(_WRITABLE)


def kept(
    client: docker.APIClient,
    asked: Mapping[str, Any],
    keeper: ContainerKeeper,
    folder: IncarnationFolder,
    *,
    spec: ReplicaSpec,
    restore: CheckpointRef | None,
    version: int,
) -> dict[str, Any]:
    """The arguments of a container with a keeper, whose order is written.

    Args:
        client: The engine's.
        asked: The arguments without a keeper.
        keeper: How it is kept.
        folder: The incarnation.
        spec: What it runs.
        restore: The checkpoint to restore.
        version: The engine's; older ones do not know the capability that is made for CRIU.

    Raises:
        ImageNotFound: The engine has no such image.
        ClusterError: The job could enter its keeper's folders.
        OSError: The order could not be written.
    """
    image = client.inspect_image(asked["image"])
    uid, gid = map(int, asked["user"].split(":"))
    if gid == GROUP:
        raise ClusterError(f"the group {GROUP} is that of keepers, and has jobs here", code="not-started")
    order = order_to_keeper(
        folder,
        spec,
        restore,
        user=(uid, gid),
        files=layers_of(image),
        most_bytes=keeper.most_bytes,
    )
    write_order(folder, order.dump())
    keeper.temporary.mkdir(mode=0o700, exist_ok=True)
    os.chown(keeper.temporary, uid, gid, follow_symlinks=False)
    of_image = dict(each.partition("=")[::2] for each in image["Config"].get("Env") or ())
    unset = dict.fromkeys(of_image, "")
    given = {HOME: keeper.home, PROGRAM: KEEPER, ORDER: folder.keeping}
    binds = [Mount(to, str(at), type="bind", read_only=True) for to, at in given.items()]
    host = asked["host_config"]
    if all(each["Target"] != TEMPORARY for each in host["Mounts"]):
        binds.append(Mount(TEMPORARY, str(keeper.temporary), type="bind"))
    newer = version >= _FIRST_WITH_CHECKPOINT_RESTORE
    return {
        **asked,
        "entrypoint": list(KEEPS[:1]),
        "command": list(KEEPS[1:]),
        "environment": {**unset, JOBS_ENVIRONMENT: json.dumps({**of_image, **asked["environment"]})},
        "working_dir": "/" if spec.working_dir is not None else None,
        "user": "0:0",
        "host_config": {
            **host,
            "CapAdd": ["SYS_ADMIN" if each == CAPABILITIES[0] and not newer else each for each in CAPABILITIES],
            "SecurityOpt": [*host["SecurityOpt"], "seccomp=unconfined"],  # CRIU cannot lift another filter
            "Init": False,
            "Mounts": [*host["Mounts"], *binds],
        },
    }
