"""The newest incarnation of every replica that is not forgotten, and the last observation of each.

It owns the adapter's memory, which can be rebuilt from the state folder. It must never know how a state is proven, nor act
on a replica.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from steepest.cluster.folders.adapter_folder import AdapterFolder, Hello, IncarnationFolder, SpecRecord, warn_once
from steepest.cluster.folders.control_protocol import ReportsTail, hello
from steepest.cluster.folders.gpu_table import GpuTable
from steepest.cluster.observation import Observation
from steepest.cluster.port import ReplicaId, ReplicaPhase
from steepest.events.common import KeeperFacts

GREETINGS_MOST = 50
"""How often what is declared of an incarnation may change: a keeper has few reasons, and each change is an event."""


class ResourceUse(msgspec.Struct, frozen=True):
    """The resources that a replica uses; None is unknown, never 0.

    Attributes:
        cpu_m: CPU since the previous sample, in millicores.
        cpu_ms: CPU time since the incarnation started, in milliseconds.
        memory_mib: Resident memory, in MiB.
        block_bytes_s: Bytes per second read from and written to block devices since the previous sample.
        network_bytes_s: Bytes per second received and sent since the previous sample.
        read_bytes: Bytes read from the storage since the incarnation started.
        stopped: Whether the process of it that worked most was stopped by a signal in this sample and the one before.
    """

    cpu_m: int | None = None
    cpu_ms: int | None = None
    memory_mib: int | None = None
    block_bytes_s: int | None = None
    network_bytes_s: int | None = None
    read_bytes: int | None = None
    stopped: bool = False


class Tracked:
    """One incarnation and its last observation.

    Attributes:
        settled: It has ended, and its job's checkpoints were verified after that: its state is final.
        gpus: The ids of its GPUs; empty: it has none, or the adapter does not know them.
        place: What its keeper in a container has seen of its node; None: it has none, or it is not known yet.
        listed: Whether a heartbeat has said that it runs.
    """

    gpus: tuple[int, ...] = ()
    listed = False
    place: KeeperFacts | None = None

    def __init__(self, folder: IncarnationFolder, spec: SpecRecord) -> None:
        self.folder = folder
        self.spec = spec
        self.node = spec.node
        self.seen = Observation(phase=ReplicaPhase.STARTING, began=False)
        self.hello: Hello | None = None
        self._greetings = 0
        self.tail = ReportsTail(folder)
        self.use = ResourceUse()
        self.settled = False

    @property
    def runs(self) -> bool:
        """Whether it is known to run."""
        return self.seen.phase == ReplicaPhase.RUNNING

    def note(self, seen: Observation) -> bool:
        """Record an observation; return whether it changed in a way that a heartbeat must report immediately."""
        before = (self.seen.phase, self.hello)
        self.seen = seen
        if self.hello is None or (self.hello.kept and self._greetings < GREETINGS_MOST):
            self.hello = hello(self.folder)
            self._greetings += before[1] != self.hello
        if self.place is None and os.path.lexists(self.folder.place) and self.folder.keeping.exists():
            self.place = self.folder.read(self.folder.place, KeeperFacts)  # a keeper's folder is closed to its job
        if seen.ended:
            self.use = ResourceUse(cpu_ms=self.use.cpu_ms, read_bytes=self.use.read_bytes)
        if before == (self.seen.phase, self.hello):
            return False
        self.tail.read()
        return True


@contextlib.contextmanager
def isolated(folder: IncarnationFolder, *, reraise: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Log an error in the block, once, instead of raising it: it must not affect other incarnations.

    Raises:
        Exception: One of ``reraise``, which is about more than the incarnation.
    """
    try:
        yield
    except reraise:
        raise
    except Exception as error:  # noqa: BLE001 - a job may cause an error that was not anticipated
        warn_once(folder.path, f"its files are not read: {error!r}"[:500])


T = TypeVar("T", bound=Tracked)


class Roster(Generic[T]):
    """All tracked incarnations.

    Args:
        make: Creates the record of an incarnation.
        node: Only of those on this node; None: of all.
    """

    def __init__(
        self, state: AdapterFolder, make: Callable[[IncarnationFolder, SpecRecord], T], node: str | None = None
    ) -> None:
        self._state = state
        self._make = make
        self._node = node
        self._gpus = GpuTable(state, {})
        self._newest: dict[ReplicaId, T] = {}
        self._by_node: dict[str, dict[ReplicaId, T]] = {}
        self._by_job: dict[str, dict[ReplicaId, T]] = {}

    def load(self) -> list[T]:
        """Track every incarnation in the state folder; return those that are new."""
        return [tracked for folder in self._state.all() if (tracked := self.track(folder)) is not None]

    def untracked(self) -> list[IncarnationFolder]:
        """Incarnations newer than the tracked ones: another adapter on the folder started them."""
        return [
            self._state.incarnation(replica, number)
            for replica, number in self._state.newest()
            if (known := self._newest.get(replica)) is None or known.folder.incarnation < number
        ]

    def retired(self) -> list[str]:
        """Tracked jobs that are no longer in the folder: another adapter has forgotten them."""
        return [job for job in sorted(self._by_job) if not self._state.job(job).exists()]

    def superseded(self) -> list[T]:
        """Tracked incarnations that have ended, and after which another one was started."""
        found = []
        for tracked in [each for each in self.all() if each.settled]:
            started = self._state.incarnations(tracked.folder.replica)
            if started and started[-1].incarnation > tracked.folder.incarnation:
                found.append(tracked)
        return found

    @staticmethod
    def _is_new(folder: IncarnationFolder, known: T | None) -> bool:
        return known is None or known.folder.incarnation < folder.incarnation

    def track(self, folder: IncarnationFolder, spec: SpecRecord | None = None) -> T | None:
        """Track an incarnation of the node, unless it or a newer one is tracked already or its spec cannot be read.

        ``spec``: what it was started with, if that is known: a job may have damaged its own folder.
        """
        known = self._newest.get(folder.replica)
        if not self._is_new(folder, known):
            return None
        spec = spec or folder.planned()
        if spec is None or self._node not in (None, spec.node):
            return None
        self._newest[folder.replica] = tracked = self._make(folder, spec)
        tracked.gpus = self._gpus.ids_of(folder)
        if known is not None:
            self._leave(known)
        self._by_node.setdefault(tracked.node, {})[folder.replica] = tracked
        self._by_job.setdefault(folder.replica.job, {})[folder.replica] = tracked
        return tracked

    def drop(self, job: str) -> list[T]:
        """Stop tracking a job; return its incarnations that were tracked."""
        dropped = list(self._by_job.pop(job, {}).values())
        for tracked in dropped:
            del self._newest[tracked.folder.replica]
            self._leave(tracked)
        return dropped

    def drop_one(self, tracked: T) -> None:
        """Stop tracking one incarnation, if it is tracked."""
        replica = tracked.folder.replica
        if self._newest.get(replica) is not tracked:
            return
        del self._newest[replica]
        self._leave(tracked)
        of_job = self._by_job[replica.job]
        del of_job[replica]
        if not of_job:
            del self._by_job[replica.job]

    def _leave(self, tracked: T) -> None:
        on_node = self._by_node[tracked.node]
        del on_node[tracked.folder.replica]
        if not on_node:
            del self._by_node[tracked.node]

    def get(self, replica: ReplicaId) -> T | None:
        """The tracked incarnation of a replica."""
        return self._newest.get(replica)

    def count(self, job: str) -> int:
        """How many replicas of a job are tracked."""
        return len(self._by_job.get(job, {}))

    def all(self) -> list[T]:
        """All tracked incarnations."""
        return list(self._newest.values())

    def on(self, node: str) -> list[T]:
        """The tracked incarnations of a node, in order of replicas; the work does not grow with those of other nodes."""
        return [tracked for _, tracked in sorted(self._by_node.get(node, {}).items(), key=lambda one: one[0])]

    def running(self) -> list[T]:
        """The incarnations that are known to run."""
        return [tracked for tracked in self.all() if tracked.runs]


def jobs_of(tracked: Iterable[Tracked]) -> list[str]:
    """The names of their jobs, sorted, without duplicates."""
    return sorted({each.folder.replica.job for each in tracked})
