"""What a container has of the machine, and as whom: the folders that are mounted into it, and its user.

It owns the rule that a job gets no folder that nobody has let jobs have. It must never call an engine.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from docker.types import Mount

from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.port import ReplicaSpec
from steepest.errors import RefusedError

NOBODY = 65_534
_HIDING_BYTES = 1 << 20


class Allowed(msgspec.Struct, frozen=True):
    """What jobs may have.

    Attributes:
        folders: Their working folders are these, or below them.
        hidden: Nothing of it is seen in a container, wherever that is mounted: the installation's own folder.
    """

    folders: tuple[Path, ...]
    hidden: Path


class Mounts(msgspec.Struct, frozen=True):
    """What one container has.

    Attributes:
        all: The mounts.
        uid, gid: Its user.
    """

    all: list[Mount]
    uid: int
    gid: int

    @property
    def user(self) -> str:
        """As an engine takes it."""
        return f"{self.uid}:{self.gid}"


def mounts_of(state: AdapterFolder, folder: IncarnationFolder, spec: ReplicaSpec, allowed: Allowed) -> Mounts:
    """The control folder and the job's checkpoints, where they are here; likewise the working folder, if there is one here.

    What it writes can be removed by who runs the adapter: it has our user. Where we are root it has the user whose working
    folder it is, and without such a folder nobody's.

    Raises:
        RefusedError: ``no-such-program``: its working folder is none that jobs may have.
    """
    own = [str(folder.control), str(state.checkpoints(folder.replica.job))]
    all_ = [Mount(place, place, type="bind") for place in own]
    uid, gid = (os.getuid(), os.getgid()) if os.getuid() else (NOBODY, NOBODY)
    if spec.working_dir is not None and Path(spec.working_dir).is_dir():
        work = _refuse_unless_allowed(Path(spec.working_dir), allowed)
        all_.append(Mount(str(Path(spec.working_dir).absolute()), str(work), type="bind"))
        hidden = allowed.hidden.resolve()
        if hidden.is_relative_to(work):
            seen = Path(spec.working_dir).absolute() / hidden.relative_to(work)
            all_.append(Mount(str(seen), None, type="tmpfs", tmpfs_size=_HIDING_BYTES, tmpfs_mode=0o755))
        if not os.getuid():
            found = work.stat()
            uid, gid = found.st_uid, found.st_gid
    return Mounts(all=all_, uid=uid, gid=gid)


def give(state: AdapterFolder, folder: IncarnationFolder, mounts: Mounts) -> None:
    """Let a container of another user write where it must.

    Raises:
        OSError: It cannot.
    """
    if mounts.uid == os.getuid():
        return
    for place in (folder.control, state.checkpoints(folder.replica.job)):
        os.chown(place, mounts.uid, mounts.gid, follow_symlinks=False)


def _refuse_unless_allowed(asked: Path, allowed: Allowed) -> Path:
    """The folder itself, wherever links lead."""
    work = asked.resolve()
    if work.is_relative_to(allowed.hidden.resolve()):
        raise RefusedError(f"the working folder {asked} is the installation's own", code="no-such-program")
    if not any(work.is_relative_to(folder.resolve()) for folder in allowed.folders):
        has = ", ".join(map(str, allowed.folders)) or "none"
        raise RefusedError(
            f"the working folder {asked} is none that containers may have (they may have {has})",
            code="no-such-program",
            hint=f"let them: steepest up --folder {asked}",
        )
    return work
