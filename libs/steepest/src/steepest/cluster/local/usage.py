"""Measures the CPU and memory that replicas use. Unknown is None, never 0.

It owns counting; it must never decide anything. A replica's processes are those of its control group if it has one,
otherwise those of its session. Its calls block, for about a millisecond per hundred processes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import psutil

from steepest.cluster.folders.replica_roster import ResourceUse
from steepest.cluster.local.groups import pids_in, read_group_file
from steepest.errors import UntrustedError

_K = TypeVar("_K", bound=Hashable)
_MIB = 1 << 20


class UsageFile(msgspec.Struct, frozen=True):
    """Where to find a replica's processes: its session (the pid of its first process), and its control group.

    Attributes:
        kept: Whether it has a keeper, which stops its processes to save them.
    """

    session: int
    cgroup: str | None = None
    kept: bool = False


class _Sample(msgspec.Struct, frozen=True):
    at_s: float
    cpu_s: float
    stopped: bool


class Meter(Generic[_K]):
    """Measures a changing set of replicas, each over the time since its own previous sample."""

    def __init__(self) -> None:
        self._samples: dict[_K, _Sample] = {}

    def measure(self, places: Mapping[_K, UsageFile], now_s: float) -> dict[_K, ResourceUse]:
        """Measure all replicas.

        Args:
            places: The replicas that run now; the samples of others are dropped.
            now_s: The monotonic clock, in seconds.
        """
        found = _members(places)
        uses = {}
        samples = {}
        for key, place in places.items():
            cpu_s, memory_mib, stopped = _count(place, found[key])
            before, cpu_m, cpu_ms = self._samples.get(key), None, None
            if cpu_s is not None:
                samples[key] = _Sample(now_s, cpu_s, stopped)
                cpu_m, cpu_ms = _rate_m(before, samples[key]), round(cpu_s * 1000)
            stopped = stopped and before is not None and before.stopped
            uses[key] = ResourceUse(cpu_m=cpu_m, cpu_ms=cpu_ms, memory_mib=memory_mib, stopped=stopped)
        self._samples = samples
        return uses


def _rate_m(before: _Sample | None, after: _Sample) -> int | None:
    if before is None or after.at_s <= before.at_s:
        return None
    # The CPU time of a child that was never waited for is lost when it dies, so the sum may fall.
    return max(round((after.cpu_s - before.cpu_s) / (after.at_s - before.at_s) * 1000), 0)


def _members(places: Mapping[_K, UsageFile]) -> dict[_K, list[int]]:
    members: dict[_K, list[int]] = {key: [] for key in places}
    by_session = {}
    for key, place in places.items():
        if place.cgroup is None or not _read_group(place.cgroup, members[key]):
            by_session[place.session] = key
    for pid in psutil.pids() if by_session else ():
        with contextlib.suppress(OSError):
            if (found := by_session.get(os.getsid(pid))) is not None:
                members[found].append(pid)
    return members


def _read_group(cgroup: str, into: list[int]) -> bool:
    try:
        into.extend(pids_in(Path(cgroup)))
    except (OSError, UntrustedError):
        return False
    return True


def _count(place: UsageFile, pids: list[int]) -> tuple[float | None, int | None, bool]:
    """CPU time so far in seconds, memory in MiB, and whether a signal has stopped the process that worked most.

    Where there is a keeper or no control group, Steepest itself stops processes: then that says nothing.
    """
    cpu_s, memory, found, busiest = 0.0, 0, False, (-1.0, "")
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            with process.oneshot():
                times = process.cpu_times()
                memory += process.memory_info().rss
                busiest = max(busiest, (times.user + times.system, process.status()))
            cpu_s += times.user + times.system + times.children_user + times.children_system
            found = True
    if not found:
        return None, None, False
    counted = _group_cpu_s(place.cgroup) if place.cgroup else None
    is_stopped = place.cgroup is not None and not place.kept and busiest[1] == psutil.STATUS_STOPPED
    return (cpu_s if counted is None else counted), round(memory / _MIB), is_stopped


def _group_cpu_s(cgroup: str) -> float | None:
    """The kernel's own count: ``usage_usec`` (version 2), or ``cpuacct.usage`` (version 1, if mounted there)."""
    with contextlib.suppress(OSError, UntrustedError, ValueError):
        return int(read_group_file(Path(cgroup), "cpuacct.usage")) / 1e9
    with contextlib.suppress(OSError, UntrustedError, ValueError):
        for line in read_group_file(Path(cgroup), "cpu.stat").splitlines():
            name, _, value = line.partition(b" ")
            if name == b"usage_usec":
                return int(value) / 1e6
    return None
