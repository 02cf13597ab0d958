"""Keepers in containers: what a container with one has that others have not, and the order to it.

The keeper is the container's first process, and begins as root with a few capabilities. So nothing that a job's user says
may change what it runs: its Python and CRIU come from the operator's folder, and the job alone gets the job's environment.
It owns these arguments. It must never call an engine, except to inspect an image.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker
import msgspec
from docker.types import Mount

import steepest.keeper
from steepest.cluster.container_paths import CHECKPOINTS, CONTROL
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.port import ReplicaSpec
from steepest.errors import ClusterError
from steepest.events.common import CheckpointRef
from steepest.keeper.kernel import CAPABILITIES, GROUP
from steepest.keeper.order import JOBS_ENVIRONMENT, KeeperOrder
from steepest.untrusted import files

KEEPER = Path(steepest.keeper.__file__).parent
"""The keeper's program on this machine."""

_HOME = "/steepest/criu"
_PROGRAM = "/steepest/program/steepest/keeper"
_ORDER = "/steepest/order.json"
_FIRST_WITH_CHECKPOINT_RESTORE = 23
_WRITABLE = 0o770
_LOADER_PREFIX = "LD_"
_TEMPORARY = "/tmp"  # noqa: S108 - in the container


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
    order = KeeperOrder(
        program=spec.command[0],
        command=list(spec.command),
        working_dir=spec.working_dir,
        job=folder.replica.job,
        incarnation=folder.incarnation,
        control=CONTROL,
        checkpoints=CHECKPOINTS,
        scratch=f"{CONTROL}/.scratch",
        criu=_called("usr/sbin/criu"),
        zstd=_called("usr/bin/zstd"),
        restore=(restore.name, restore.digest) if restore is not None else None,
        most_bytes=keeper.most_bytes,
        user=(uid, gid),
        files=hashlib.sha256("\n".join(image["RootFS"]["Layers"]).encode()).hexdigest(),
    )
    files.replace(folder.keeping, order.dump(), below=folder.below)
    keeper.temporary.mkdir(mode=0o700, exist_ok=True)
    os.chown(keeper.temporary, uid, gid, follow_symlinks=False)
    words = [*_called("usr/bin/python3"), "-I", "-S", _PROGRAM, _ORDER]
    of_image = dict(each.partition("=")[::2] for each in image["Config"].get("Env") or ())
    unset = {name: "" for name in of_image if name.startswith(_LOADER_PREFIX)}
    given = {_HOME: keeper.home, _PROGRAM: KEEPER, _ORDER: folder.keeping}
    binds = [Mount(to, str(at), type="bind", read_only=True) for to, at in given.items()]
    host = asked["host_config"]
    if all(each["Target"] != _TEMPORARY for each in host["Mounts"]):
        binds.append(Mount(_TEMPORARY, str(keeper.temporary), type="bind"))
    newer = version >= _FIRST_WITH_CHECKPOINT_RESTORE
    return {
        **asked,
        "entrypoint": words[:1],
        "command": words[1:],
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


def _called(program: str) -> list[str]:
    """How a program is called in a container, with its own loader and libraries."""
    return [f"{_HOME}/loader", "--library-path", f"{_HOME}/lib", f"{_HOME}/root/{program}"]
