"""The local adapter's roster: it observes and measures the processes of all replicas.

It must never act on a process, except that ``observe`` kills orphans. ``look`` and ``measure`` block and run on a thread,
one at a time.
"""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import msgspec

from steepest.cluster.folders.adapter_folder import (
    AdapterFolder,
    IncarnationFolder,
    LimitRecord,
    SpecRecord,
    StartRecord,
)
from steepest.cluster.folders.replica_roster import Roster, Tracked, isolated
from steepest.cluster.local.data_relay import COUNT
from steepest.cluster.local.phases import observe
from steepest.cluster.local.usage import Meter, UsageFile
from steepest.cluster.port import ReplicaId
from steepest.errors import UntrustedError
from steepest.events.common import LARGEST
from steepest.untrusted import files


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
        """Read the limit again: another process may run an adapter on the same folder and have changed it."""
        limit = self.folder.read(self.folder.limit, LimitRecord)
        if limit is not None:
            self.limit_m = limit.cpu_limit_m

    def look(self, boot: str) -> bool:
        """Observe again; return whether a heartbeat must report a change immediately."""
        if self.seen.ended:
            return False
        seen = observe(self.folder, boot)
        self.start = self.start or self.folder.started()
        changed = self.note(seen)
        if seen.ended:
            self.read_traffic()
        return changed

    def read_traffic(self) -> None:
        """Read what its relay has counted. A job runs with the same rights, so the file is read as untrusted."""
        with contextlib.suppress(FileNotFoundError, UntrustedError, struct.error):
            (count,) = COUNT.unpack(files.read(self.folder.traffic, below=self.folder.below, most=COUNT.size))
            self.use = msgspec.structs.replace(self.use, read_bytes=min(count, LARGEST))


class LocalRoster(Roster[LocalTracked]):
    """All tracked incarnations.

    Args:
        boot: The id of the machine's current boot.
    """

    def __init__(self, state: AdapterFolder, boot: str) -> None:
        super().__init__(state, LocalTracked)
        self._boot = boot
        self._meter: Meter[tuple[ReplicaId, int]] = Meter()

    def look(self) -> list[LocalTracked]:
        """Observe all that have not ended; return those that changed."""
        changed = []
        for tracked in self.all():
            with isolated(tracked.folder):
                if tracked.look(self._boot):
                    changed.append(tracked)
        return changed

    def measure(self, now_s: float) -> None:
        """Measure the running replicas and read their reports. ``now_s``: the monotonic clock, in seconds."""
        running = {(each.folder.replica, each.folder.incarnation): each for each in self.running() if each.start}
        uses = self._meter.measure({key: _place(each) for key, each in running.items()}, now_s)
        for key, tracked in running.items():
            tracked.use = uses[key]
            with isolated(tracked.folder):
                tracked.read_traffic()
                tracked.tail.read()
                tracked.look_up_limit()


def _place(tracked: LocalTracked) -> UsageFile:
    start, kept = tracked.start, tracked.folder.keeping.exists()
    return UsageFile(session=start.pid if start else 0, cgroup=start.cgroup if start else None, kept=kept)
