"""The newest incarnation of every replica that is not forgotten, and what was last seen of each.

It owns the adapter's memory, all of which can be read again from the state folder. It must never know what proves that
something runs, nor act on it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from steepest.cluster.folders.adapter_folder import AdapterFolder, Hello, IncarnationFolder, SpecRecord, complain
from steepest.cluster.folders.control_protocol import ReportsTail, hello
from steepest.cluster.observation import Observation
from steepest.cluster.port import ReplicaId, ReplicaPhase


class Use(msgspec.Struct, frozen=True):
    """What a replica uses; None is unknown, and never 0.

    Attributes:
        cpu_m: CPU since the sample before, in millicores.
        memory_mib: Resident memory.
        block_bytes_s: Read from and written to block devices since the sample before, a second.
        network_bytes_s: Received and sent since the sample before, a second.
    """

    cpu_m: int | None = None
    memory_mib: int | None = None
    block_bytes_s: int | None = None
    network_bytes_s: int | None = None


class Tracked:
    """One incarnation and what was last seen of it.

    Attributes:
        settled: It has ended, and its job's checkpoints were verified since: nothing more will be known of it.
    """

    def __init__(self, folder: IncarnationFolder, spec: SpecRecord) -> None:
        self.folder = folder
        self.spec = spec
        self.node = spec.node
        self.seen = Observation(phase=ReplicaPhase.STARTING, began=False)
        self.hello: Hello | None = None
        self.tail = ReportsTail(folder)
        self.use = Use()
        self.settled = False

    @property
    def runs(self) -> bool:
        """Whether it is known to run."""
        return self.seen.phase == ReplicaPhase.RUNNING

    def note(self, seen: Observation) -> bool:
        """Take what was seen of it now; whether anything changed that others want to know at once."""
        before = (self.seen.phase, self.hello)
        self.seen = seen
        self.hello = self.hello or hello(self.folder)
        if seen.ended:
            self.use = Use()
        if before == (self.seen.phase, self.hello):
            return False
        self.tail.read()
        return True


@contextlib.contextmanager
def alone(folder: IncarnationFolder) -> Iterator[None]:
    """Whatever goes wrong in the block is this incarnation's trouble and no other one's: it is logged, once."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a job may be the cause of what nobody has thought of
        complain(folder.path, f"its files are not read: {error!r}"[:500])


T = TypeVar("T", bound=Tracked)


class Roster(Generic[T]):
    """All that is tracked.

    Args:
        make: Begins to track an incarnation.
    """

    def __init__(self, state: AdapterFolder, make: Callable[[IncarnationFolder, SpecRecord], T]) -> None:
        self._state = state
        self._make = make
        self._newest: dict[ReplicaId, T] = {}

    def load(self) -> list[T]:
        """Track whatever is in the state folder; give what was not tracked before."""
        return [tracked for folder in self._state.all() if (tracked := self.track(folder)) is not None]

    def untracked(self) -> list[IncarnationFolder]:
        """Incarnations that are newer than what is tracked: another adapter on the folder has started them."""
        return [
            self._state.incarnation(replica, number)
            for replica, number in self._state.newest()
            if (known := self._newest.get(replica)) is None or known.folder.incarnation < number
        ]

    def retired(self) -> list[str]:
        """Jobs that are tracked and not in the folder any more: another adapter has forgotten them."""
        return [job for job in jobs_of(list(self._newest.values())) if not self._state.job(job).exists()]

    @staticmethod
    def _is_new(folder: IncarnationFolder, known: T | None) -> bool:
        return known is None or known.folder.incarnation < folder.incarnation

    def track(self, folder: IncarnationFolder, spec: SpecRecord | None = None) -> T | None:
        """Track an incarnation from now on, unless it or a newer one is tracked or its folder cannot be read.

        ``spec``: what it was started with, where that is known: a job may have damaged its own folder by now.
        """
        known = self._newest.get(folder.replica)
        if not self._is_new(folder, known):
            return None
        spec = spec or folder.planned()
        if spec is None:
            return None
        self._newest[folder.replica] = tracked = self._make(folder, spec)
        return tracked

    def drop(self, job: str) -> list[T]:
        """Track nothing of a job any more; give what was tracked of it."""
        dropped = [tracked for replica, tracked in self._newest.items() if replica.job == job]
        for tracked in dropped:
            del self._newest[tracked.folder.replica]
        return dropped

    def get(self, replica: ReplicaId) -> T | None:
        """The newest incarnation that is tracked."""
        return self._newest.get(replica)

    def all(self) -> list[T]:
        """Everything that is tracked."""
        return list(self._newest.values())

    def on(self, node: str) -> list[T]:
        """What runs or ran last on a node, in order of replicas."""
        return [self._newest[replica] for replica in sorted(self._newest) if self._newest[replica].node == node]

    def running(self) -> list[T]:
        """All that is known to run."""
        return [tracked for tracked in self.all() if tracked.runs]


def jobs_of(tracked: Iterable[Tracked]) -> list[str]:
    """The names of their jobs, each once, in order."""
    return sorted({each.folder.replica.job for each in tracked})
