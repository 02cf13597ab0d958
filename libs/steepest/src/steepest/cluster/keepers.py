"""Keepers of jobs: whether there can be any, and the order to one on this machine.

It owns where CRIU is found, and what a machine must have for it. It must never know phases, nor what an image holds. Its
calls block, for a tenth of a second.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

import steepest.keeper
from steepest.cluster import observation
from steepest.cluster.folders.adapter_folder import AdapterFolder, Hello, IncarnationFolder
from steepest.cluster.port import GangPlace, ReplicaId, ReplicaSpec
from steepest.errors import RefusedError
from steepest.events.common import CheckpointMode, CheckpointRef, KeeperFacts
from steepest.keeper.criu import Criu
from steepest.keeper.images import FACTS
from steepest.keeper.order import KeeperOrder
from steepest.keeper.places import own_place

HOME = "STEEPEST_CRIU_HOME"
_OLDEST = (4, 1)
_TIMEOUT_S = 30.0
SNAPSHOT_S = 60.0
"""The least time between two snapshots of a job whose user demands a keeper; the keeper of another one takes none."""


class KeeperPrograms(msgspec.Struct, frozen=True):
    """How the two programs of a keeper are called."""

    criu: tuple[str, ...]
    zstd: tuple[str, ...]


class KeeperPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job is kept.

    Attributes:
        programs: What its keeper calls.
        group: The control group of the keeper itself; a save is not slowed down by the job's limit.
        most_bytes: The most memory that may be saved; None: what the disk has room for.
    """

    programs: KeeperPrograms
    group: Path
    most_bytes: int | None = None


def _homes() -> list[Path]:
    checkout = Path(__file__).parents[5:6]  # none where an image has the package near its root
    return [Path(os.environ.get(HOME) or ".criu").absolute(), *(folder / ".criu" for folder in checkout)]


def find_whole() -> Path | str:
    """The folder of ``make criu`` with CRIU, Python and their loader, which run in any container; else why there is none."""
    for home in _homes():
        if (home / "root/usr/bin/python3").exists() and (home / "loader").exists():
            return home.resolve()
    return "there is no CRIU for containers on this machine; get it with: make criu"


def find_programs() -> KeeperPrograms | str:
    """CRIU and zstd: of ``make criu``, or this machine's; else why there are none."""
    places = os.pathsep.join([*map(str, _homes()), os.environ.get("PATH", "")])
    criu, zstd = (shutil.which(name, path=places) for name in ("criu", "zstd"))
    if criu is None or zstd is None:
        return f"there is no {'criu' if criu is None else 'zstd'} on this machine; get it with: make criu"
    return KeeperPrograms((criu,), (zstd,))


@functools.lru_cache(maxsize=8)
def why_unable(programs: KeeperPrograms, *, has_groups: bool) -> str:
    """Why this process cannot keep jobs; empty if it can, as far as that shows without a trial."""
    if not sys.platform.startswith("linux"):
        return "only Linux has what CRIU needs"
    if os.geteuid() != 0:
        return "CRIU needs root here"
    if not has_groups:
        return "there are no CPU control groups here, and a job that is throttled by signals cannot be saved"
    try:
        said = _run([*programs.criu, "--version"])
    except (OSError, subprocess.SubprocessError) as error:
        return f"{programs.criu[0]} cannot be run: {error}"
    version = re.search(r"(\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        return (
            f"CRIU 4.1 or newer is needed, and {programs.criu[0]} is {version[0] if version else 'unknown'}; make criu"
        )
    return ""


def facts(unable: str) -> KeeperFacts:
    """What an image of a job on this machine depends on; ``unable``: why there is none."""
    programs = find_programs()
    if unable or isinstance(programs, str):
        return KeeperFacts(unable=unable)
    place = own_place(Criu(programs.criu))
    return KeeperFacts(
        machine=place["machine"], kernel=place["kernel"], criu=tuple(place["criu"]), cpu=" ".join(place["cpu"])
    )


def _run(words: list[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False).stdout


def command(order: Path) -> list[str]:
    """The keeper's command. ``order``: its file."""
    return [sys.executable, "-I", "-S", str(Path(steepest.keeper.__file__).parent), str(order)]


def is_image(state: AdapterFolder, job: str, restore: CheckpointRef) -> bool:
    """Whether a checkpoint is what a keeper has saved."""
    return (state.checkpoints(job) / restore.name / FACTS).is_file()


def refuse_image(state: AdapterFolder, job: str, restore: CheckpointRef | None, why: str) -> None:
    """Refuse to start a job without a keeper, where only a keeper can restore what it starts from.

    Raises:
        RefusedError: ``checkpoint-refused``.
    """
    if restore is not None and is_image(state, job, restore):
        raise RefusedError(f"{restore.name} cannot be restored here: {why}", code="checkpoint-refused")


def declare_none(folder: IncarnationFolder, spec: ReplicaSpec, unable: str) -> None:
    """Say why a job whose user wants a keeper has none; ``unable``: empty where it has one.

    Raises:
        OSError: It was not written.
    """
    if unable and spec.checkpoint_mode is CheckpointMode.SYSTEM:
        folder.write(folder.hello, Hello(checkpoint_mode=CheckpointMode.NONE, kept=True, reason=f"no-keeper: {unable}"))


def write_order(
    state: AdapterFolder,
    folder: IncarnationFolder,
    place: KeeperPlace,
    *,
    program: str,
    words: tuple[str, ...],
    working_dir: str | None,
    mode: CheckpointMode,
    restore: CheckpointRef | None,
    cgroup: Path,
    gang: GangPlace | None,
) -> tuple[list[str], str]:
    """Write the order to a job's keeper; return the keeper's command, and where the job runs.

    A job whose user names no folder runs in one of its own, which is the same for all incarnations: a restored process
    finds its files only under their old names.

    Raises:
        OSError: It could not be written.
    """
    job, replicas = folder.replica.job, gang.world_size if gang is not None else 0
    own = working_dir or str(state.job(job) / "work")
    if working_dir is None:
        Path(own).mkdir(exist_ok=True)
    state.checkpoints(job).chmod(0o700)
    order = KeeperOrder(
        program=program,
        command=list(words),
        working_dir=own,
        job=job,
        incarnation=folder.incarnation,
        control=str(folder.control),
        checkpoints=str(state.checkpoints(job)),
        criu=list(place.programs.criu),
        zstd=list(place.programs.zstd),
        auto=mode is CheckpointMode.AUTO,
        restore=(restore.name, restore.digest) if restore is not None else None,
        cgroup=str(cgroup),
        keeper_cgroup=str(place.group),
        most_bytes=place.most_bytes,
        snapshot_s=SNAPSHOT_S if mode is CheckpointMode.SYSTEM else None,
        gang=tuple(str(state.incarnation(ReplicaId(job, rank), folder.incarnation).path) for rank in range(replicas)),
        rank=folder.replica.index,
    )
    observation.write_order(folder, order.dump())
    return command(folder.keeping), own
