"""Keepers in pods: their programs on the volume that pods share, and what a pod with one has that others have not.

A keeper is the first process of its container, and begins as root with a few capabilities. So nothing that a job's user says
may change what it runs: its Python and CRIU are the operator's, mounted read-only, and the job alone gets its variables.

It must never send a request.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from steepest.cluster.container_paths import HOME, KEEPER, KEEPS, ORDER, PROGRAM, TEMPORARY, order_to_keeper
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events.common import CheckpointRef
from steepest.keeper.kernel import CAPABILITIES
from steepest.keeper.order import JOBS_ENVIRONMENT
from steepest.untrusted import files

_LOADERS = ("GLIBC_TUNABLES", "LD_AUDIT", "LD_PRELOAD")
"""Variables, which an image may set, by which the keeper's loader would load the image's code."""

_FOLDER = "keepers"


class PodKeeper(msgspec.Struct, frozen=True):
    """How a job is kept in a pod.

    Attributes:
        programs: The folder of ``provide``, in the state folder.
        most_bytes: The most memory that may be saved; None: what the disk has room for.
    """

    programs: str
    most_bytes: int | None = None


def provide(state: AdapterFolder, home: Path) -> str:
    """Put the keeper's programs on the volume, unless they are there; return their folder in the state folder.

    Args:
        state: The state folder.
        home: The folder of ``make criu``.

    Raises:
        OSError: They cannot be written.
    """
    made = state.path / _FOLDER / _digest(home)
    if not made.exists():
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
    files.replace(folder.keeping, order.dump(), below=folder.below)
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
    own = {"name": "state", "readOnly": True}
    jobs = below / "jobs" / replica.job
    order = f"{jobs}/{replica.index}/$(STEEPEST_INCARNATION)/keeping.json"
    return {
        **pod,
        "shareProcessNamespace": False,
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "seccompProfile": {"type": "Unconfined"},  # CRIU cannot lift another filter
        },
        "containers": [
            {
                **container,
                "command": list(KEEPS),
                "env": [
                    *(each for each in container["env"] if "valueFrom" in each),
                    *({"name": name, "value": ""} for name in _LOADERS),
                    {"name": JOBS_ENVIRONMENT, "value": json.dumps(given)},
                ],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"], "add": list(CAPABILITIES)},
                },
                "volumeMounts": [
                    *container["volumeMounts"],
                    {**own, "mountPath": HOME, "subPath": f"{below}/{keeper.programs}/criu"},
                    {**own, "mountPath": PROGRAM, "subPath": f"{below}/{keeper.programs}/keeper"},
                    {**own, "mountPath": ORDER, "subPathExpr": order},
                    {"name": "state", "mountPath": TEMPORARY, "subPath": str(jobs / "tmp")},
                ],
            }
        ],
    }
