"""The state folder of an embedded system: where its log, snapshots and jobs are, which nodes it emulates, and its version.

It owns names and versions; nothing else builds a path in the folder. It closes the folder to other users: one who can write
into the log can run commands as the folder's user, one who can lock it can stop the system, and jobs' variables may be
secrets.
"""

from __future__ import annotations

import copy
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from steepest import flock
from steepest.cluster.folders.ended_jobs import Retention
from steepest.errors import InputError, RecordingError, UncertainError
from steepest.events.common import Name, Positive, Resources
from steepest.log.files.atomic_write import private, write_atomically
from steepest.runtime.layout import Layout

OTHERS = stat.S_IRWXG | stat.S_IRWXO

VERSION = 1
"""Version of the folder's layout of one pool; others than this and the next one are refused."""

POOLS_VERSION = 2
"""The version of a folder of several pools, which earlier releases do not know."""


KUBERNETES = "kubernetes://"
"""How the address of a node begins that belongs to a Kubernetes cluster."""


class NodeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node: emulated on this machine, a Docker engine, or one of a Kubernetes cluster.

    Attributes:
        engine: The engine's address, or the cluster's with the namespace and the claim; empty: it is emulated.
        tls: The folder of the keys for it; empty: none.
    """

    name: Name
    capacity: Resources
    engine: str = ""
    tls: str = ""


class PoolSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pool: its nodes belong to it alone.

    Attributes:
        queues: Queues whose jobs go to this pool where no pool is named.
    """

    name: Name
    nodes: tuple[NodeSpec, ...]
    queues: tuple[Name, ...] = ()


class Installation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``steepest.json``: what the folder is.

    Attributes:
        pool: The first pool's name.
        nodes: The first pool's nodes.
        pools: The others, in the order of their partitions. A pool is never removed.
        heartbeat_ms: Period of the nodes' heartbeats.
        image: The image of jobs that name none, where nodes are Docker engines.
        soft_limits: CPU limits are weights there, and no caps.
        host_network: Gangs may run there, whose replicas have their machine's network.
        system_checkpoints: Jobs may have keepers, whose containers have capabilities and no filter of system calls. None: on
            emulated nodes alone.
        ended: How much stays of what jobs printed and saved that are over.
        storage: The address of the storage server that jobs read their data from; empty: none.
        folders: What jobs' containers may have there: their working folders are these, or below them.
        link_mbit: The rate of the links that join emulated nodes, in Mbit/s; None: all are on this machine's loopback.
        kinds: On Kubernetes, the kinds of users' objects other than Job that are scheduled.
        namespaces: On Kubernetes, the namespaces other than its claim's whose users' objects are scheduled.
    """

    version: int = VERSION
    pool: Name = "default"
    nodes: tuple[NodeSpec, ...]
    heartbeat_ms: int = 500
    loss_partitions: int = 4
    image: str = ""
    soft_limits: bool = False
    host_network: bool = False
    system_checkpoints: bool | None = None
    ended: Retention = Retention()
    storage: str = ""
    folders: tuple[str, ...] = ()
    pools: tuple[PoolSpec, ...] = ()
    link_mbit: Positive | None = None
    kinds: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()

    @property
    def layout(self) -> Layout:
        """Its topics and partitions."""
        return Layout(pools=tuple(pool.name for pool in self.all_pools), loss_partitions=self.loss_partitions)

    @property
    def all_pools(self) -> tuple[PoolSpec, ...]:
        """Every pool, the first one first."""
        return (PoolSpec(name=self.pool, nodes=self.nodes), *self.pools)

    def nodes_of(self, pool: str) -> tuple[NodeSpec, ...]:
        """A pool's nodes.

        Raises:
            InputError: There is no such pool.
        """
        return self.all_pools[self.layout.of_pool(pool).partition].nodes

    def kubernetes(self, pool: str) -> str:
        """The address of the Kubernetes cluster whose nodes a pool has; empty: it has others."""
        return next((node.engine for node in self.nodes_of(pool) if node.engine.startswith(KUBERNETES)), "")

    def selector(self, pool: str) -> str | None:
        """The labels of a pool's nodes in their cluster; None: its nodes are listed."""
        self.layout.of_pool(pool)
        return None

    @property
    def has_agents(self) -> bool:
        """Whether each of its nodes has an agent, which copies, measures and sends heartbeats there."""
        return False

    def in_containers(self, pool: str) -> bool:
        """Whether a pool's jobs run in containers, and so have an image's programs."""
        return bool(self.kubernetes(pool)) or any(node.engine for node in self.nodes_of(pool))

    def isolates(self, pool: str) -> bool:
        """Whether processes on different nodes of a pool cannot reach each other: on Docker engines, unless they may."""
        return self.in_containers(pool) and not self.kubernetes(pool) and not self.host_network

    def pool_of_queue(self, queue: str) -> str:
        """The pool of the jobs of a queue that name none."""
        return next((pool.name for pool in self.pools if queue in pool.queues), self.pool)


class KafkaPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``kafka.json``: where the log is.

    Attributes:
        own: Whether the broker is one of the installation's own, in ``kafka/``, which ``steepest up`` starts and stops.
    """

    bootstrap: str
    prefix: str = ""
    own: bool = False


class _FolderVersion(msgspec.Struct):
    version: int = 0


class StateFolder:
    """Paths of a state folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "log"
        self.snapshots = root / "snapshots"
        self.cluster = root / "cluster"
        self.collector = root / "collector"
        self.mqtt_bridge = root / "mqtt-bridge"
        self.kafka = root / "kafka"
        self.services = root / "services"
        self.kafka_file = root / "kafka.json"
        self.gateway = root / "gateway.json"
        self.agents = root / "agents"
        self.opening_lock: Path | None = root / "opening.lock"
        self._up_lock = root / "up.lock"
        self._installation = root / "steepest.json"

    @property
    def exists(self) -> bool:
        """Whether there is an installation in it."""
        return self._installation.exists()

    @property
    def has_log_in_files(self) -> bool:
        """Whether a log in files was begun in it."""
        return (self.log / "recording.json").exists()

    def of_pool(self, installation: Installation, pool: str) -> StateFolder:
        """This folder with what is a pool's own: the files of its nodes and of their log-collector."""
        folder = copy.copy(self)
        if pool != installation.pool:
            own = self.root / "pools" / pool
            folder.cluster, folder.collector = own / "cluster", own / "collector"
        return folder

    def create(self, installation: Installation) -> None:
        """Make the folder an installation, or change what it is.

        Raises:
            RecordingError: It cannot be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.keep_others_out()
            write_atomically(self._installation, _encoded(installation))
        except OSError as error:
            raise _unwritable(self.root, error) from error

    def keep_others_out(self) -> bool:
        """Remove all rights of other users on the folder, independent of the umask; return whether they had any.

        Raises:
            InputError: It is another user's folder.
            OSError: Its rights cannot be changed.
        """
        from steepest.secret_files import refuse_shared  # noqa: PLC0415 - commands that only look do without

        status = self.root.stat()
        refuse_shared(self.root, status, "is to hold what this user runs", others=0)
        mode = stat.S_IMODE(status.st_mode)
        if not mode & OTHERS:
            return False
        self.root.chmod(mode & ~OTHERS)
        return True

    def _demo(self) -> str:
        """Name the newest demo's folder, for a user who looks for its jobs here; empty without one."""
        demos = [path for path in self.root.glob("demo-*") if StateFolder(path).exists]
        newest = max(demos, key=lambda path: path.stat().st_mtime, default=None)
        return "" if newest is None else f", such as the demo's: --state {newest}"

    def read(self) -> Installation:
        """The contents of the folder.

        Raises:
            InputError: There is no installation in it.
            RecordingError: It is damaged, or of another version.
        """
        try:
            data = self._installation.read_bytes()
        except FileNotFoundError:
            raise InputError(
                f"no state folder at {self.root}",
                code="no-state",
                hint=f"start one with `steepest up`, or name another with --state{self._demo()}",
            ) from None
        except OSError as error:
            raise RecordingError(f"cannot read {self._installation}: {error.strerror}") from error
        try:
            version = msgspec.json.decode(data, type=_FolderVersion).version
            if version in (VERSION, POOLS_VERSION):
                return msgspec.json.decode(data, type=Installation)
        except msgspec.DecodeError as error:
            raise RecordingError(
                f"{self._installation} is damaged: {error}", hint="restore it, or begin with a new folder"
            ) from error
        raise RecordingError(
            f"the state folder {self.root} is of version {version}, and this Steepest knows {VERSION} and {POOLS_VERSION}",
            hint="use the Steepest that made it, or begin with a new folder",
        )

    def kafka_place(self) -> KafkaPlace | None:
        """Where on Kafka the log is; None where it is in files.

        Raises:
            RecordingError: ``kafka.json`` is damaged.
        """
        try:
            return msgspec.json.decode(self.kafka_file.read_bytes(), type=KafkaPlace)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise RecordingError(
                f"{self.kafka_file} cannot be read: {error}", hint="restore it, or name the cluster again"
            ) from error

    def remember_kafka(self, place: KafkaPlace) -> None:
        """Let every command that names the folder find its log."""
        write_atomically(self.kafka_file, msgspec.json.format(msgspec.json.encode(place), indent=2))

    @contextmanager
    def sole(self) -> Iterator[None]:
        """Hold the folder's lock within the context; the kernel releases it when the process dies.

        Raises:
            InputError: Another one runs.
            RecordingError: Nothing can be written there.
        """
        try:
            opened = open(self._up_lock, "a+", opener=private)  # noqa: SIM115 - the next line does
        except OSError as error:
            raise _unwritable(self.root, error) from error
        with opened as lock:
            if not flock.try_lock(lock.fileno()):
                raise InputError(
                    f"a Steepest runs on {self.root} already (process {self.running()})",
                    code="already-up",
                    hint=f"stop it with `steepest down --state {self.root}`",
                )
            lock.truncate(0)
            lock.write(f"{os.getpid()} {began(os.getpid())}")
            lock.flush()
            yield

    @property
    def is_up(self) -> bool:
        """Whether a system runs on this folder."""
        return self.running() is not None

    def running(self) -> int | None:
        """The process that runs on this folder, in its own numbers; None where none does."""
        return self._holder()[0] if self._is_locked() else None

    def system(self) -> int | None:
        """The same process, to be signalled: proven to have taken the lock, and not another with its number.

        Raises:
            UncertainError: The lock is held, and not by the process that it names.
        """
        if not self._is_locked():
            return None
        pid, start = self._holder()
        if pid is None or began(pid) != start:
            raise UncertainError(
                f"{self._up_lock} is held, and process {pid}, which it names, is not who wrote that",
                code="unknown-holder",
                hint=f"see who holds it (`fuser {self._up_lock}`); a container's processes are stopped from inside it",
            )
        return pid

    def _is_locked(self) -> bool:
        try:
            with self._up_lock.open() as lock:
                return flock.is_locked(lock.fileno())
        except FileNotFoundError:
            return False

    def _holder(self) -> tuple[int | None, str]:
        """Who wrote that it holds the lock: the process and when it began."""
        pid, _, start = self._up_lock.read_text().partition(" ")
        return (int(pid), start) if pid.isdecimal() else (None, "")


def _encoded(installation: Installation) -> bytes:
    """With one pool and nothing that is newer, a folder is as earlier releases made it, and as they can read it."""
    content = msgspec.to_builtins(installation)
    if not installation.pools:
        del content["pools"]
    if not installation.storage:
        del content["storage"]
    for newer in ("kinds", "namespaces"):
        if not content[newer]:
            del content[newer]
    if installation.link_mbit is None:
        del content["link_mbit"]
    content["version"] = POOLS_VERSION if installation.pools else VERSION
    return msgspec.json.format(msgspec.json.encode(content), indent=2)


def began(pid: int) -> str:
    """When a process began, in a form that no change of the clock changes; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]  # in ticks since the boot
    except FileNotFoundError:
        import psutil  # noqa: PLC0415 - it takes long to import, and Linux does without

        try:
            return str(psutil.Process(pid).create_time())  # where the system has no /proc
        except psutil.Error:
            return ""


def _unwritable(folder: Path, error: OSError) -> RecordingError:
    return RecordingError(
        f"cannot write the state folder {folder}: {error.strerror}",
        hint="make room there, or name another with --state",
    )
