"""The newest incarnation of every replica that is not forgotten, and what was last seen of each.

It owns the adapter's memory, all of which can be read again from the state folder. It must never act on a process,
but for what ``observe`` does to orphans. ``look`` and ``measure`` block and run on a thread, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from steepest.cluster.conversation import ReportsTail, hello
from steepest.cluster.folder import (
    Hello,
    IncarnationFolder,
    LimitRecord,
    SpecRecord,
    StartRecord,
    StateFolder,
    read_json,
)
from steepest.cluster.local.phases import Observation, observe
from steepest.cluster.local.usage import Meter, Place, Use
from steepest.cluster.port import ReplicaId, ReplicaPhase


class Tracked:
    """One incarnation and what was last seen of it.

    Attributes:
        settled: It has ended, and its job's checkpoints were verified since: nothing more will be known of it.
    """

    def __init__(self, folder: IncarnationFolder, spec: SpecRecord) -> None:
        limit = read_json(folder.limit, LimitRecord)
        self.folder = folder
        self.node = spec.node
        self.limit_m = spec.cpu_limit_m if limit is None else limit.cpu_limit_m
        self.seen = Observation(phase=ReplicaPhase.STARTING, began=False)
        self.start: StartRecord | None = None
        self.hello: Hello | None = None
        self.tail = ReportsTail(folder.reports)
        self.use = Use()
        self.settled = False

    @property
    def runs(self) -> bool:
        """Whether it is known to run."""
        return self.seen.phase == ReplicaPhase.RUNNING

    @property
    def cgroup(self) -> Path | None:
        """Its control group, where it has one."""
        return Path(self.start.cgroup) if self.start and self.start.cgroup else None

    def look(self, boot: str) -> bool:
        """Look again; whether anything changed that others want to know at once."""
        if self.seen.ended:
            return False
        before = (self.seen.phase, self.hello)
        self.seen = observe(self.folder, boot)
        self.start = self.start or read_json(self.folder.start, StartRecord)
        self.hello = self.hello or hello(self.folder)
        if self.seen.ended:
            self.use = Use()
        if before == (self.seen.phase, self.hello):
            return False
        self.tail.read()
        return True


class Roster:
    """All that is tracked.

    Args:
        boot: Which boot of the machine it is now.
    """

    def __init__(self, state: StateFolder, boot: str) -> None:
        self._state = state
        self._boot = boot
        self._newest: dict[ReplicaId, Tracked] = {}
        self._meter: Meter[tuple[ReplicaId, int]] = Meter()

    def load(self) -> list[Tracked]:
        """Track whatever is in the state folder; give what was not tracked before."""
        return [tracked for folder in self._state.all() if (tracked := self.track(folder)) is not None]

    def untracked(self) -> list[IncarnationFolder]:
        """Incarnations that are newer than what is tracked: another adapter on the folder has started them."""
        newest = {folder.replica: folder for folder in self._state.all()}
        return [folder for replica, folder in newest.items() if self._is_new(folder, self._newest.get(replica))]

    def retired(self) -> list[str]:
        """Jobs that are tracked and not in the folder any more: another adapter has forgotten them."""
        return [job for job in jobs_of(list(self._newest.values())) if not self._state.job(job).exists()]

    @staticmethod
    def _is_new(folder: IncarnationFolder, known: Tracked | None) -> bool:
        return known is None or known.folder.incarnation < folder.incarnation

    def track(self, folder: IncarnationFolder) -> Tracked | None:
        """Track an incarnation from now on, unless it or a newer one is tracked or its folder cannot be read."""
        known = self._newest.get(folder.replica)
        if not self._is_new(folder, known):
            return None
        spec = read_json(folder.spec, SpecRecord)
        if spec is None:
            return None
        self._newest[folder.replica] = tracked = Tracked(folder, spec)
        return tracked

    def drop(self, job: str) -> list[Tracked]:
        """Track nothing of a job any more; give what was tracked of it."""
        dropped = [tracked for replica, tracked in self._newest.items() if replica.job == job]
        for tracked in dropped:
            del self._newest[tracked.folder.replica]
        return dropped

    def get(self, replica: ReplicaId) -> Tracked | None:
        """The newest incarnation that is tracked."""
        return self._newest.get(replica)

    def on(self, node: str) -> list[Tracked]:
        """What runs or ran last on a node, in order of replicas."""
        return [self._newest[replica] for replica in sorted(self._newest) if self._newest[replica].node == node]

    def running(self) -> list[Tracked]:
        """All that is known to run."""
        return [tracked for tracked in list(self._newest.values()) if tracked.runs]

    def look(self) -> list[Tracked]:
        """Look at all that has not ended; give those that changed."""
        return [tracked for tracked in list(self._newest.values()) if tracked.look(self._boot)]

    def measure(self, now_s: float) -> None:
        """Measure what all that runs uses, and read what it reported. ``now_s``: the monotonic clock."""
        running = {(each.folder.replica, each.folder.incarnation): each for each in self.running() if each.start}
        uses = self._meter.measure({key: _place(each) for key, each in running.items()}, now_s)
        for key, tracked in running.items():
            tracked.use = uses[key]
            tracked.tail.read()


def _place(tracked: Tracked) -> Place:
    start = tracked.start
    return Place(session=start.pid if start else 0, cgroup=start.cgroup if start else None)


def jobs_of(tracked: Iterable[Tracked]) -> list[str]:
    """The names of their jobs, each once, in order."""
    return sorted({each.folder.replica.job for each in tracked})
