"""Keepers in pods: their programs on the volume that pods share, and what a pod with one has that others have not.

A keeper is the first process of its container, and begins as root with a few capabilities. So nothing that a job's user says
may change what it runs: its Python and CRIU are the operator's, mounted read-only, and the job alone gets its variables.

It must never send a request.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from steepest.cluster import observation
from steepest.cluster.container_paths import HOME, KEEPER, KEEPS, ORDER, PROGRAM, TEMPORARY, order_to_keeper
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events.common import CheckpointRef
from steepest.keeper.kernel import CAPABILITIES
from steepest.keeper.order import JOBS_ENVIRONMENT

LOADERS = ("GCONV_PATH", "GLIBC_TUNABLES", "LD_AUDIT", "LD_PRELOAD", "LOCPATH")
"""Variables, which an image may set, by which the keeper's loader and C library would load the image's code."""

VERSION = "STEEPEST_KEEPER"
"""The variable of a user's container that has the folder of ``provide``."""

AS_ROOT = {
    "runAsUser": 0,
    "runAsGroup": 0,
    "seccompProfile": {"type": "Unconfined"},  # CRIU cannot lift another filter
}
RIGHTS = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], "add": list(CAPABILITIES)}}

USERS_SECURITY = {**AS_ROOT, "runAsNonRoot": False, **RIGHTS}
USERS_ENVIRONMENT = [
    *({"name": name, "value": ""} for name in LOADERS),
    {"name": JOBS_ENVIRONMENT, "value": "{}"},  # the variables of the container are the job's
]
"""The keeper's rights and variables in the container of a user's Job."""

_UNUSED_S = 3_600.0
"""How long the programs of a version stay after the last start with them: another process may be about to use them."""

_FOLDER = "keepers"
_TEMPORARY = "tmp"  # ``AdapterFolder.temporary``


class PodKeeper(msgspec.Struct, frozen=True):
    """How a job is kept in a pod.

    Attributes:
        programs: The folder of ``provide``, in the state folder.
        most_bytes: The most memory that may be saved; None: what the disk has room for.
    """

    programs: str
    most_bytes: int | None = None


class _Programs(msgspec.Struct, frozen=True):
    """The part of an order that says which programs a keeper runs from."""

    programs: str = ""


def provide(state: AdapterFolder, home: Path) -> str:
    """Put the keeper's programs on the volume, unless they are there; return their folder in the state folder.

    Args:
        state: The state folder.
        home: The folder of ``make criu``.

    Raises:
        OSError: They cannot be written.
    """
    made = state.path / _FOLDER / _digest(home)
    if made.exists():
        with contextlib.suppress(OSError):
            os.utime(made)  # it stays for a while
    else:
        made.parent.mkdir(mode=0o755, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=made.parent))
        try:
            shutil.copytree(home, new / "criu", symlinks=True)
            shutil.copytree(KEEPER, new / "keeper", ignore=shutil.ignore_patterns("__pycache__"))
            new.chmod(0o755)
            new.rename(made)
        except OSError as error:
            if not made.exists():  # no other start has put them there meanwhile
                raise OSError(f"{home} was not copied: {error}"[:500]) from error
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return f"{_FOLDER}/{made.name}"


def remove_unused(state: AdapterFolder) -> None:
    """Remove the programs of other versions with which nothing runs; an image needs none, as the newest ones restore it.

    Folders that a killed process has half copied, or half removed, go as well.
    """
    since_s = time.time() - _UNUSED_S
    for path in (state.path / _FOLDER).glob(".*"):
        if path.stat().st_mtime < since_s:
            shutil.rmtree(path, ignore_errors=True)
    found = sorted((path.stat().st_mtime, path) for path in (state.path / _FOLDER).glob("[0-9a-f]*"))
    old = [path for made_s, path in found[:-1] if made_s < since_s]
    kept = (folder for folder in state.all() if folder.keeping.exists()) if old else ()
    running = [folder for folder in kept if not (folder.exit.exists() or folder.gone.exists())]
    used = [folder.read(folder.keeping, _Programs) for folder in running]
    for path in old:
        if None not in used and _Programs(f"{_FOLDER}/{path.name}") not in used:
            removed = path.rename(path.with_name(f".old-{path.name}"))  # a start that needs it again makes it whole
            shutil.rmtree(removed, ignore_errors=True)


@functools.cache
def _digest(home: Path) -> str:
    digest = hashlib.sha256()
    for top in (home, KEEPER):
        for path in sorted(path for path in top.rglob("*") if path.is_file() and path.suffix != ".pyc"):
            digest.update(f"{path.relative_to(top)}\t{path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def write_order(
    state: AdapterFolder,
    folder: IncarnationFolder,
    spec: ReplicaSpec,
    restore: CheckpointRef | None,
    keeper: PodKeeper,
    *,
    user: int,
    image: str,
) -> None:
    """Write the order to a keeper, and make the job's folder of temporary files, which moves with it.

    Which files an image holds is not known here: its name says it, and CRIU compares the files that a job has open.

    Raises:
        OSError: It could not be written.
    """
    order = order_to_keeper(
        folder, spec, restore, user=(user, user), files=spec.image or image, most_bytes=keeper.most_bytes
    )
    observation.write_order(folder, order._replace(programs=keeper.programs).dump())
    temporary = state.temporary(folder.replica.job)
    temporary.mkdir(mode=0o700, exist_ok=True)
    if user != os.getuid():
        os.chown(temporary, user, user, follow_symlinks=False)


def kept(pod: Mapping[str, Any], keeper: PodKeeper, below: Path, replica: ReplicaId) -> dict[str, Any]:
    """The spec of a pod with a keeper. Its container has process ids of its own, as CRIU needs them.

    Args:
        pod: The spec without one.
        keeper: How it is kept.
        below: The state folder's path in the volume.
        replica: The replica.
    """
    (container,) = pod["containers"]
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    jobs = below / "jobs" / replica.job
    mounts = _mounts("state", f"{below}/{keeper.programs}", str(jobs), str(replica.index))
    return {
        **pod,
        "shareProcessNamespace": False,
        "securityContext": AS_ROOT,
        "containers": [
            {
                **container,
                "command": list(KEEPS),
                "env": [
                    *(each for each in container["env"] if "valueFrom" in each),
                    *({"name": name, "value": ""} for name in LOADERS),
                    {"name": JOBS_ENVIRONMENT, "value": json.dumps(given)},
                ],
                "securityContext": RIGHTS,
                "volumeMounts": [*container["volumeMounts"], *mounts],
            }
        ],
    }


def users_mounts(volume: str, state: str, of_job: str) -> list[dict[str, Any]]:
    """The mounts of a keeper in a user's Job. Their paths have variables whose values are set when the pod is placed.

    Args:
        volume: The volume's name in the pod.
        state: The state folder's path in the volume.
        of_job: That of the job's folder.
    """
    return _mounts(volume, f"{state}/$({VERSION})", of_job, "$(STEEPEST_REPLICA)")


def _mounts(volume: str, programs: str, of_job: str, replica: str) -> list[dict[str, Any]]:
    own = {"name": volume, "readOnly": True}
    return [
        {**own, "mountPath": HOME, "subPathExpr": f"{programs}/criu"},
        {**own, "mountPath": PROGRAM, "subPathExpr": f"{programs}/keeper"},
        {**own, "mountPath": ORDER, "subPathExpr": f"{of_job}/{replica}/$(STEEPEST_INCARNATION)/keeping.json"},
        {"name": volume, "mountPath": TEMPORARY, "subPathExpr": f"{of_job}/{_TEMPORARY}"},
    ]
