"""The folders that are mounted into a container, and the user that it runs as.

It owns the rule that a job gets only folders that the operator allows. It must never call an engine.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from docker.types import Mount

from steepest.cluster.allowed_folders import Allowed, AllowedPath
from steepest.cluster.container_paths import CHECKPOINTS, CONTROL
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.port import ReplicaSpec
from steepest.errors import RefusedError

NOBODY = 65_534
_HIDING_BYTES = 1 << 20


class Mounts(msgspec.Struct, frozen=True):
    """The mounts and the user of one container.

    Attributes:
        all: The mounts.
        uid, gid: Its user and group.
    """

    all: list[Mount]
    uid: int
    gid: int

    @property
    def user(self) -> str:
        """User and group in an engine's format."""
        return f"{self.uid}:{self.gid}"


def mounts_of(state: AdapterFolder, folder: IncarnationFolder, spec: ReplicaSpec, allowed: Allowed) -> Mounts:
    """Mount the control folder, the job's checkpoints, and the allowed folder that has the working folder if that is here.

    The allowed folder has its own path. It is mounted whole, because an engine follows links in what it mounts; the working
    folder's path is resolved in the container alone. The container runs as the adapter's user, who can then remove
    what it writes. If that is root, it runs as the owner of the allowed folder, and never as root: as ``nobody`` where root
    owns it, or where there is none.

    Raises:
        RefusedError: ``no-such-program``: jobs may not use its working folder.
    """
    own = {CONTROL: folder.control, CHECKPOINTS: state.checkpoints(folder.replica.job)}
    all_ = [Mount(target, str(place), type="bind") for target, place in own.items()]
    uid, gid = os.getuid(), os.getgid()
    if spec.working_dir is not None and Path(spec.working_dir).is_dir():
        work = _allowed(spec.working_dir, allowed)
        all_.append(Mount(str(work.place), str(work.folder), type="bind"))
        if allowed.hidden.parent.resolve() == work.folder:
            seen = str(work.place / allowed.hidden.name)
            all_.append(Mount(seen, None, type="tmpfs", tmpfs_size=_HIDING_BYTES, tmpfs_mode=0o755))
        if not os.getuid():
            found = work.folder.stat()
            uid, gid = found.st_uid, found.st_gid
    return Mounts(all=all_, uid=uid or NOBODY, gid=gid or NOBODY)


def set_owner(state: AdapterFolder, folder: IncarnationFolder, mounts: Mounts) -> None:
    """Give the container's user ownership of the folders that it must write to.

    Raises:
        OSError: The owner cannot be changed.
    """
    if mounts.uid == os.getuid():
        return
    for place in (folder.control, state.checkpoints(folder.replica.job)):
        os.chown(place, mounts.uid, mounts.gid, follow_symlinks=False)


def _allowed(asked: str, allowed: Allowed) -> AllowedPath:
    """The allowed folder of a working folder. What is refused is for people: nothing of the path itself is mounted."""
    work = Path(asked).resolve()
    if work.is_relative_to(allowed.hidden.resolve()):
        raise RefusedError(f"the working folder {asked} is the installation's own", code="no-such-program")
    found = allowed.find(asked)
    if found is None or not work.is_relative_to(found.folder):
        has = ", ".join(map(str, allowed.folders)) or "none"
        raise RefusedError(
            f"containers may not use the working folder {asked} (allowed: {has})",
            code="no-such-program",
            hint=f"allow it: steepest up --folder {asked}",
        )
    return found
