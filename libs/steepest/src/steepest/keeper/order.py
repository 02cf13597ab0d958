"""The order to a keeper: a file from the process that starts it, without secrets: the environment is not in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

JOBS_ENVIRONMENT = "STEEPEST_JOBS_ENVIRONMENT"
"""The variable of a container that has the job's whole environment, as JSON."""


class KeeperOrder(NamedTuple):
    """What to run, and where everything is.

    Attributes:
        program: The absolute path of the job's program.
        command: Its arguments, the first one included.
        working_dir: Where it runs; None: where the keeper does.
        job: The job's name.
        incarnation: The incarnation.
        control: The control folder of this incarnation.
        checkpoints: The job's checkpoint folder.
        criu: How CRIU is called.
        zstd: How the compressor is called.
        auto: Whether the job may save by itself: then it gets the control folder's variables, and what it declares counts.
        restore: The checkpoint to restore, and its digest; None: begin.
        cgroup: The control group that the job runs in; None: the keeper's own.
        keeper_cgroup: The one of the keeper and of CRIU.
        most_bytes: The most memory that may be saved; None: what the disk has room for.
        snapshot_s: The least time between two images of a job that trains on, for the case that its node dies; None: there
            are none.
        user: The job's user and group in a container, of which the keeper is the first process and begins as root; None: the
            keeper makes namespaces, and the job has its user.
        files: What the files of the container's image are; two that differ hold other files.
        gang: The folders of this incarnation of all replicas, by rank, where they are saved together; empty: it is no gang.
        rank: Its own rank.
        programs: The folder on the pods' volume from which the keeper itself runs, which stays as long as it does.
    """

    program: str
    command: list[str]
    working_dir: str | None
    job: str
    incarnation: int
    control: str
    checkpoints: str
    criu: list[str]
    zstd: list[str]
    auto: bool = False
    restore: tuple[str, str] | None = None
    cgroup: str | None = None
    keeper_cgroup: str | None = None
    most_bytes: int | None = None
    snapshot_s: float | None = None
    user: tuple[int, int] | None = None
    files: str = ""
    gang: tuple[str, ...] = ()
    rank: int = 0
    programs: str = ""

    def dump(self) -> bytes:
        """The file's content."""
        return json.dumps(self._asdict()).encode()

    @classmethod
    def load(cls, path: Path) -> KeeperOrder:
        """Read the file."""
        fields: dict[str, Any] = json.loads(path.read_bytes())
        return cls(**{**fields, "gang": tuple(fields["gang"])})
