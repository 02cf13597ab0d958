"""The paths in a job's container, and the order to its keeper there, which Docker and Kubernetes have in common.

They lie in no folder of the user's: there a folder above them may be closed to the container's user.
"""

from __future__ import annotations

import os
from pathlib import Path

import steepest.keeper
from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.keepers import SNAPSHOT_S
from steepest.cluster.port import MetricsPlace, ReplicaSpec
from steepest.events.common import CheckpointRef
from steepest.keeper.order import KeeperOrder

CONTROL = "/steepest/control"
CHECKPOINTS = "/steepest/checkpoints"

VARIABLES = {"STEEPEST_CONTROL": CONTROL, "STEEPEST_CHECKPOINTS": CHECKPOINTS}
"""They tell the job."""

KEEPER = Path(steepest.keeper.__file__).parent
"""The keeper's program on this machine."""

HOME = "/steepest/criu"
PROGRAM = "/steepest/program/steepest/keeper"
ORDER = "/steepest/order.json"
TEMPORARY = "/tmp"  # noqa: S108 - in the container


def called(program: str) -> list[str]:
    """How a program of the operator's folder is called in a container, with its own loader and libraries."""
    return [f"{HOME}/loader", "--library-path", f"{HOME}/lib", f"{HOME}/root/{program}"]


KEEPS = (*called("usr/bin/python3"), "-I", "-S", PROGRAM, ORDER)
"""The command of a container with a keeper."""


def order_to_keeper(
    folder: IncarnationFolder,
    spec: ReplicaSpec,
    restore: CheckpointRef | None,
    *,
    user: tuple[int, int],
    files: str,
    most_bytes: int | None,
) -> KeeperOrder:
    """What the keeper of a container is to do; the last three are as in ``KeeperOrder``."""
    return KeeperOrder(
        program=spec.command[0],
        command=list(spec.command),
        working_dir=spec.working_dir,
        job=folder.replica.job,
        incarnation=folder.incarnation,
        control=CONTROL,
        checkpoints=CHECKPOINTS,
        criu=called("usr/sbin/criu"),
        zstd=called("usr/bin/zstd"),
        restore=(restore.name, restore.digest) if restore is not None else None,
        most_bytes=most_bytes,
        snapshot_s=SNAPSHOT_S,
        user=user,
        files=files,
    )


def metrics_in_checkpoints(asked: str, checkpoints: Path) -> MetricsPlace | None:
    """The folder on this machine of a path that the job's process sees, if that is in its checkpoints.

    Args:
        asked: The path; a relative one begins in the checkpoints.
        checkpoints: The job's checkpoints on this machine.
    """
    path = Path(os.path.normpath(Path(CHECKPOINTS, asked)))
    if not path.is_relative_to(CHECKPOINTS):
        return None
    return MetricsPlace(checkpoints / path.relative_to(CHECKPOINTS), checkpoints.parent)
