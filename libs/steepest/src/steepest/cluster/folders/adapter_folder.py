"""The layout of an adapter's state folder, and how its small files are read and written.

It owns names, paths and record shapes on disk. It must never know processes: whether something runs is not its business.
A file that does not decode counts as absent, and the reason is logged once. Nothing below a job's folder is trusted,
not even Steepest's own files: a job of the local cluster runs with the same rights.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import InputError, UntrustedError
from steepest.events.common import LARGEST, CheckpointMode, Count, ExitStatus, Name, Text, is_name
from steepest.logger import Logger
from steepest.untrusted import files, json

_log = Logger()
_T = TypeVar("_T")
_FILE_BYTES_MOST = 1 << 16  # far more than any file of the control folder's contract
_SPEC_BYTES_MOST = 1 << 24  # more than the kernel accepts as a command, with every character escaped


USERS_OBJECT = "STEEPEST_KUBERNETES_JOB"
"""The variable of a job's environment that names the object which its user has made in a cluster."""


class SpecRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``spec.json``, written with the incarnation's folder before anything runs. No environment: it may hold secrets.

    Attributes:
        users_object: The object that a user has made for it; empty: none has. None: an earlier release does not say.
    """

    node: Name
    command: tuple[str, ...]
    working_dir: str | None = None
    cpu_limit_m: Count | None = None
    users_object: str | None = None


class StartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``start.json``: the supervisor writes it before the job runs its first instruction.

    Attributes:
        pid: Of the job's first process; also the id of its process group and of its session.
        mark: Distinguishes this process from a later one with the same pid; None if it died immediately.
        boot: The machine's boot that the pid belongs to.
        cgroup: The group it runs in; None: its supervisor throttles it.
        lock: Inode of the lock that the supervisor holds; None: the supervisor is older than this field.
    """

    pid: int
    mark: str | None
    boot: str
    cgroup: str | None = None
    lock: int | None = None


class ExitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``exit.json``: how it ended, as from ``wait``. ``place``: how its place ended and took it along; empty: it did not."""

    status: ExitStatus
    reason: str = ""
    place: str = ""


class GoneRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``gone.json``: it is proven not to run any more, and has no exit status that says anything of its job."""

    reason: str


class LimitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``limit.json``: the cap set after the start; it overrides the one in ``spec.json``."""

    cpu_limit_m: Count | None


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """``hello.json`` of the control folder.

    Attributes:
        kept: Whether a keeper has written it, which may say something else later.
        reason: Why that cannot save the job, or what was lost when it was restored.
    """

    checkpoint_mode: CheckpointMode
    restored_step: Count | None = None
    kept: bool = False
    reason: Text = ""


class IncarnationFolder:
    """The files of one incarnation."""

    def __init__(self, path: Path, replica: ReplicaId, incarnation: int) -> None:
        self.path = path
        self.replica = replica
        self.incarnation = incarnation
        self.spec = path / "spec.json"
        self.start = path / "start.json"
        self.exit = path / "exit.json"
        self.gone = path / "gone.json"
        self.limit = path / "limit.json"
        self.lock = path / "lock"  # its supervisor holds it while it lives
        self.job_lock = path / "job.lock"  # the job and what it forked hold it
        self.orders = path / "orders"
        self.output = path / "output.log"
        self.copied = path / "copied.json"  # where copying its output goes on; who copies holds its lock
        self.supervisor_log = path / "supervisor.log"
        self.keeping = path / "keeping.json"  # the order to its keeper
        self.traffic = path / "traffic"  # its relay counts in it what it reads from the storage
        self.work = path / "work"
        self.control = path / "control"
        self.hello = self.control / "hello.json"
        self.place = self.control / "place.json"  # what its keeper has seen of its machine
        self.reports = self.control / "reports.jsonl"
        self.request = self.control / "checkpoint-request.json"
        self.ack = self.control / "checkpoint-ack.json"
        self.release = self.control / "release.json"
        self.keep = self.control / "keep.json"
        self.lost = self.control / "lost.json"  # its keeper says there why its end is not the job's own

    def __str__(self) -> str:
        return f"{self.replica}/{self.incarnation}"

    @property
    def below(self) -> Path:
        """The job's folder: nothing below it is trusted."""
        return self.path.parent.parent

    def read(self, path: Path, kind: type[_T]) -> _T | None:
        """Decode one of its JSON files; None if it is absent or not a valid ``kind``."""
        return self._read(path, kind, _FILE_BYTES_MOST)

    def planned(self) -> SpecRecord | None:
        """The spec it was started with; None if that cannot be read."""
        return self._read(self.spec, SpecRecord, _SPEC_BYTES_MOST)

    def started(self) -> StartRecord | None:
        """The record of its start; None if there is none."""
        return self.read(self.start, StartRecord)

    def write(self, path: Path, content: object) -> None:
        """Write one of its JSON files to a temporary file and rename it into place.

        Raises:
            OSError: The previous file, if any, is still in place.
        """
        files.replace(path, msgspec.json.encode(content), below=self.below)

    def remove(self, path: Path) -> None:
        """Remove one of its files.

        Raises:
            OSError: It is still there.
        """
        files.remove(path, below=self.below)

    def _read(self, path: Path, kind: type[_T], most: int) -> _T | None:
        try:
            return json.read_json(path, kind, below=self.below, most=most)
        except FileNotFoundError:
            return None
        except (UntrustedError, OSError) as error:
            warn_once(path, str(error))
            return None

    def make(self, spec: SpecRecord) -> None:
        """Make the folder with all files that a start needs, atomically: it is there completely or not at all.

        Raises:
            FileExistsError: Another process made it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=self.path.parent))
        try:
            (temporary / "control").mkdir()
            (temporary / "work").mkdir()
            os.mkfifo(temporary / "orders", 0o600)
            files.replace(temporary / "spec.json", msgspec.json.encode(spec), below=temporary)
            temporary.rename(self.path)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            if self.path.exists():
                raise FileExistsError(str(self.path)) from error
            raise


class AdapterFolder:
    """``state_dir``: ``jobs/<job>/<replica>/<incarnation>/``, ``jobs/<job>/checkpoints/``, ``ended/``, ``locks/``."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.jobs = self.path / "jobs"
        self.ended = self.path / "ended"
        self.locks = self.path / "locks"
        self.gang_ports = self.path / "gang-ports.json"
        self.gpus = self.path / "gpus.json"
        self.failed_gpus = self.path / "failed-gpus.json"

    def make(self) -> None:
        """Make the folders that are missing, readable by the owner only: jobs print secrets."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in (self.jobs, self.ended, self.locks):
            folder.mkdir(exist_ok=True, mode=0o700)

    def job(self, job: str) -> Path:
        """The folder of one job.

        Raises:
            InputError: It is not a valid name, and could lead out of the state folder.
        """
        try:
            return self.jobs / msgspec.convert(job, Name)
        except msgspec.ValidationError as error:
            raise InputError(f"{job!r} is not a valid job name: {error}", code="bad-name") from error

    def checkpoints(self, job: str) -> Path:
        """The job's volume, shared by all its replicas and incarnations."""
        return self.job(job) / "checkpoints"

    def temporary(self, job: str) -> Path:
        """What is ``/tmp`` in a container with a keeper: it moves with the job, and is removed with it."""
        return self.job(job) / "tmp"

    def incarnation(self, replica: ReplicaId, incarnation: int) -> IncarnationFolder:
        """The folder of an incarnation, which may not exist.

        Raises:
            InputError: The job's name or a number is invalid.
        """
        if replica.index < 0 or incarnation < 1:
            raise InputError(f"{replica}/{incarnation}: replicas count from 0, incarnations from 1", code="bad-number")
        return IncarnationFolder(self.job(replica.job) / str(replica.index) / str(incarnation), replica, incarnation)

    def incarnations(self, replica: ReplicaId) -> list[IncarnationFolder]:
        """All incarnations of a replica that have a folder, the oldest first."""
        numbers = _numbers(self.job(replica.job) / str(replica.index))
        return [self.incarnation(replica, number) for number in numbers]

    def printed(self, replica: ReplicaId) -> list[IncarnationFolder]:
        """The incarnations of a replica whose output is kept, the oldest first, whether its job is over or not.

        Raises:
            InputError: It is no name of a job.
        """
        retired = (self.ended / f"{replica.job}.{number}" for number in itertools.count(1))
        over = [
            IncarnationFolder(path / str(number), replica, number)
            for folder in itertools.takewhile(Path.exists, retired)
            for path in [folder / str(replica.index)]
            for number in _numbers(path)
        ]
        return over + self.incarnations(replica)

    def replicas(self, job: str) -> list[ReplicaId]:
        """All replicas of a job that were ever started, in order."""
        return [ReplicaId(job, index) for index in _numbers(self.job(job))]

    def all(self) -> Iterator[IncarnationFolder]:
        """Every incarnation of every job, by job, replica and incarnation."""
        for job in self.names():
            yield from self.of_job(job)

    def of_job(self, job: str) -> Iterator[IncarnationFolder]:
        """Every incarnation of one job, by replica and incarnation.

        Raises:
            InputError: It is no name of a job.
        """
        for replica in self.replicas(job):
            yield from self.incarnations(replica)

    def newest(self) -> Iterator[tuple[ReplicaId, int]]:
        """The newest incarnation of every replica, by its number. Cheap enough for every heartbeat."""
        for job in self.names():
            folder = f"{self.jobs}/{job}"
            for index in _numbers(folder):
                if numbers := _numbers(f"{folder}/{index}"):
                    yield ReplicaId(job, index), numbers[-1]

    def names(self) -> list[str]:
        """The jobs in the folder; an entry that is not a valid job name is not Steepest's."""
        return sorted(name for name in os.listdir(self.jobs) if is_name(name))  # noqa: PTH208 - see _numbers

    def retire(self, job: str) -> None:
        """Move a job to ``ended/<job>.<n>/`` and keep only its output and its checkpoints.

        Raises:
            OSError: The job was not moved.
        """
        if self.job(job).exists():
            numbers = itertools.count(1)
            target = next(path for n in numbers if not (path := self.ended / f"{job}.{n}").exists())
            self.job(job).rename(target)
            _remove(target / self.temporary(job).name)
            os.utime(target)  # the retention sweep sorts by this time
            kept = target / self.checkpoints(job).name
            for path in kept.glob(".*") if not kept.is_symlink() else ():
                if path.suffix != ".old":  # a whole checkpoint, which its process was about to replace
                    _remove(path)
            for path in target.glob("*/*/*"):
                is_kept = path.parent.parent.name == "checkpoints" or path.name.startswith("output.log")
                is_elsewhere = path.parent.is_symlink() or path.parent.parent.is_symlink()
                if not (is_kept or is_elsewhere):
                    _remove(path)
        (self.locks / job).unlink(missing_ok=True)


def _remove(path: Path) -> None:
    """Remove a file or folder; skip what cannot be removed, such as folders that are nested too deeply."""
    with contextlib.suppress(OSError, RecursionError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _numbers(folder: Path | str) -> list[int]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - a Path for each name would dominate the cost
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(number for name in names if name.isascii() and name.isdigit() and (number := int(name)) <= LARGEST)


@functools.lru_cache(maxsize=1024)
def warn_once(path: Path, why: str) -> None:
    """Log that a file is skipped, once for each reason: files are read many times a second."""
    _log.warning("file skipped", path=str(path), why=why)


def spec_record(node: str, spec: ReplicaSpec) -> SpecRecord:
    """The part of a spec that is recorded."""
    return SpecRecord(
        node=node,
        command=spec.command,
        working_dir=spec.working_dir,
        cpu_limit_m=spec.cpu_limit_m,
        users_object=spec.env.get(USERS_OBJECT, ""),
    )
