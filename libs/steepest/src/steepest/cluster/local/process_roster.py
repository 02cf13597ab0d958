"""What the local adapter knows of each replica beyond its folder, and how it looks at all of them and measures them.

It must never act on a process, but for what ``observe`` does to orphans. ``look`` and ``measure`` block and run on a
thread, one at a time.
"""

from __future__ import annotations

from pathlib import Path

from steepest.cluster.folders.adapter_folder import (
    AdapterFolder,
    IncarnationFolder,
    LimitRecord,
    SpecRecord,
    StartRecord,
)
from steepest.cluster.folders.replica_roster import Roster, Tracked, alone
from steepest.cluster.local.phases import observe
from steepest.cluster.local.usage import Meter, UsageFile
from steepest.cluster.port import ReplicaId


class LocalTracked(Tracked):
    """One incarnation as a process on this machine."""

    def __init__(self, folder: IncarnationFolder, spec: SpecRecord) -> None:
        super().__init__(folder, spec)
        self.limit_m = spec.cpu_limit_m
        self.start: StartRecord | None = None
        self.look_up_limit()

    @property
    def cgroup(self) -> Path | None:
        """Its control group, where it has one."""
        return Path(self.start.cgroup) if self.start and self.start.cgroup else None

    def look_up_limit(self) -> None:
        """Another process may have an adapter on the same folder, and may have set another limit."""
        limit = self.folder.read(self.folder.limit, LimitRecord)
        if limit is not None:
            self.limit_m = limit.cpu_limit_m

    def look(self, boot: str) -> bool:
        """Look again; whether anything changed that others want to know at once."""
        if self.seen.ended:
            return False
        seen = observe(self.folder, boot)
        self.start = self.start or self.folder.started()
        return self.note(seen)


class LocalRoster(Roster[LocalTracked]):
    """All that is tracked.

    Args:
        boot: Which boot of the machine it is now.
    """

    def __init__(self, state: AdapterFolder, boot: str) -> None:
        super().__init__(state, LocalTracked)
        self._boot = boot
        self._meter: Meter[tuple[ReplicaId, int]] = Meter()

    def look(self) -> list[LocalTracked]:
        """Look at all that has not ended; give those that changed."""
        changed = []
        for tracked in self.all():
            with alone(tracked.folder):
                if tracked.look(self._boot):
                    changed.append(tracked)
        return changed

    def measure(self, now_s: float) -> None:
        """Measure what all that runs uses, and read what it reported. ``now_s``: the monotonic clock."""
        running = {(each.folder.replica, each.folder.incarnation): each for each in self.running() if each.start}
        uses = self._meter.measure({key: _place(each) for key, each in running.items()}, now_s)
        for key, tracked in running.items():
            tracked.use = uses[key]
            with alone(tracked.folder):
                tracked.tail.read()
                tracked.look_up_limit()


def _place(tracked: LocalTracked) -> UsageFile:
    start = tracked.start
    return UsageFile(session=start.pid if start else 0, cgroup=start.cgroup if start else None)
