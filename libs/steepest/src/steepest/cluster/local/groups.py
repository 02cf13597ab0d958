"""CPU caps by control groups: a group for each node, with its capacity as quota, which contains a group for each replica.

It owns the group files of both versions; it must never know phases or plans. Within a node the kernel shares idle CPU:
groups have equal weight, each up to its own quota. Its calls block, for microseconds.
A cluster that lives holds the shared lock of its top group, so that the next start of any removes what killed ones left.

Sources: the kernel's documents *CFS Bandwidth Control* (version 1) and *Control Group v2*.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from steepest import flock
from steepest.logger import Logger
from steepest.untrusted.files import read

_log = Logger()
_PREFIX = "steepest-local-"
_PERIOD_US = 100_000
_MIN_QUOTA_US = 1000  # the kernel's minimum
_REAPED_S = 1.0


class Groups:
    """The control groups of one state folder.

    Args:
        base: An existing group in which this process may create groups with CPU control.
        version: 1 or 2.
        state_dir: Determines the group's name, so that adapters of different state folders do not collide.
    """

    def __init__(self, base: Path, version: int, state_dir: Path) -> None:
        digest = hashlib.sha256(str(state_dir.resolve()).encode()).hexdigest()[:12]
        self.top = base / f"{_PREFIX}{digest}"
        self._version = version
        self._held: int | None = None

    def open(self, capacities_m: Mapping[str, int]) -> None:
        """Create the groups of the nodes, and remove those that ended replicas and killed clusters left.

        Raises:
            OSError: There is no CPU control here, or this process may not use it.
        """
        while self._held is None:  # another cluster's start may remove it at the same time
            self.top.mkdir(exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                held = os.open(self.top, os.O_RDONLY | os.O_DIRECTORY)
                if flock.is_locked(held) or not self.top.exists():
                    os.close(held)
                else:
                    self._held = held
        self._delegate_cpu(self.top)
        self._set_weight(self.top, sum(capacities_m.values()))
        for node, capacity_m in capacities_m.items():
            group = self._node(node)
            group.mkdir(exist_ok=True)
            self._delegate_cpu(group)
            self._set_weight(group, capacity_m)
            _write_quota(group, capacity_m)
        for group in self.top.glob("node-*/*/"):
            self.remove(group)
        for other in self.top.parent.glob(f"{_PREFIX}*/"):
            _clear(other)

    def make(self, node: str, name: str, limit_m: int | None, capacity_m: int) -> Path:
        """Create the group of a replica, with its cap.

        Raises:
            OSError: It could not be created.
        """
        group = self._node(node) / name
        group.mkdir(exist_ok=True)
        cap(group, limit_m, capacity_m)
        return group

    @staticmethod
    def remove(group: Path) -> None:
        """Remove a group; one that still has processes stays until the next start."""
        with contextlib.suppress(OSError):
            group.rmdir()

    def close(self) -> None:
        """Remove the groups that no cluster uses any more. A group is busy until its dead processes are reaped."""
        deadline = time.monotonic() + _REAPED_S
        while any(not _lines(group / "cgroup.procs") for group in list(self.top.glob("node-*/*/"))):
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        if self._held is not None:
            os.close(self._held)
            self._held = None
        _clear(self.top)

    def _node(self, node: str) -> Path:
        return self.top / f"node-{node}"

    def _delegate_cpu(self, group: Path) -> None:
        if self._version > 1:
            (group / "cgroup.subtree_control").write_text("+cpu")

    def _set_weight(self, group: Path, capacity_m: int) -> None:
        """Set weights so that a full machine is shared in proportion to capacity: a core weighs as much as one process."""
        if self._version > 1:
            (group / "cpu.weight").write_text(str(min(max(capacity_m // 10, 1), 10_000)))
        else:
            (group / "cpu.shares").write_text(str(max(capacity_m * 1024 // 1000, 2)))


def keeper_group(group: Path) -> Path:
    """The group of the keeper of the replica in ``group``: not limited as the job is, but within the node's capacity."""
    return group.with_name(f"{group.name}.keeper")


def _clear(top: Path) -> None:
    """Remove the groups of a state folder without a living cluster; those of replicas that run stay."""
    with contextlib.suppress(OSError):
        descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
        if flock.try_lock(descriptor):
            for group in (*top.glob("node-*/*/"), *top.glob("node-*/"), top):
                Groups.remove(group)
        os.close(descriptor)


def cap(group: Path, limit_m: int | None, capacity_m: int) -> None:
    """Set a replica's cap; None: only the node's quota limits it.

    In version 1 a group may not exceed its parent's quota, so a cap beyond the node's capacity means no cap.

    Raises:
        OSError: The group is gone, with all its processes.
    """
    _write_quota(group, None if limit_m is None or limit_m >= capacity_m else limit_m)


def _write_quota(group: Path, limit_m: int | None) -> None:
    quota_us = None if limit_m is None else max(limit_m * _PERIOD_US // 1000, _MIN_QUOTA_US)
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{'max' if quota_us is None else quota_us} {_PERIOD_US}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(-1 if quota_us is None else quota_us))


def find_groups(state_dir: Path) -> Groups | None:
    """Control groups that work here, which is proven by trying; None if there are none."""
    if sys.platform != "linux":
        return None
    for version, base in _candidates():
        groups = Groups(base, version, state_dir)
        try:
            _try(groups)
        except OSError as error:
            _log.debug("no control groups here", base=str(base), why=str(error))
        else:
            return groups
    return None


def _try(groups: Groups) -> None:
    """Create a capped group and move a process into it; raises OSError if that fails."""
    groups.open({".probe": 100})  # no node's name starts with a dot
    probe = groups.make(".probe", str(os.getpid()), 50, 100)
    # It reads from our pipe, so that it ends when this process does, even if this process is killed.
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        (probe / "cgroup.procs").write_text(str(process.pid))
    finally:
        process.kill()
        process.communicate()
        groups.close()


def _candidates() -> list[tuple[int, Path]]:
    """Groups in which CPU groups might be created: our own in version 1; our own or an ancestor in version 2."""
    found = []
    mounts = _mounts()
    for line in _lines("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(",") and "cpu" in mounts:
            found.append((1, _below(mounts["cpu"], path)))
        if not controllers and "cgroup2" in mounts:
            # A group that contains processes cannot delegate controllers, so an ancestor is often the right one.
            mount = mounts["cgroup2"][0]
            own = _below(mounts["cgroup2"], path)
            above = [group for group in (own, *own.parents) if group.is_relative_to(mount)]
            found += [(2, group) for group in above if _delegates_cpu(group)]
    return [(version, base) for version, base in found if base.is_dir()]


def _delegates_cpu(group: Path) -> bool:
    return "cpu" in "".join(_lines(group / "cgroup.subtree_control")).split()


def _below(mount: tuple[Path, str], path: str) -> Path:
    point, root = mount
    return point / path.removeprefix(root).lstrip("/")


def _mounts() -> dict[str, tuple[Path, str]]:
    """Mount point and mounted root of "cgroup2" (version 2) and "cpu" (version 1 with that controller)."""
    found: dict[str, tuple[Path, str]] = {}
    for line in _lines("/proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, point = before.split()[3:5]
        if kind == "cgroup2":
            found.setdefault("cgroup2", (Path(point), root))
        if kind == "cgroup" and "cpu" in options.split(","):
            found.setdefault("cpu", (Path(point), root))
    return found


_GROUP_FILE_BYTES_MOST = 1 << 20  # lists more than a hundred thousand processes
_PID_DIGITS = 7  # of Linux's PID_MAX_LIMIT, 2²²


def read_group_file(group: Path, name: str) -> bytes:
    """Read a file of a group. It is read as untrusted: a forged ``start.json`` may name a folder of the job as its group.

    Raises:
        FileNotFoundError, UntrustedError: It cannot be read.
    """
    return read(group / name, below=group, most=_GROUP_FILE_BYTES_MOST)


def pids_in(group: Path) -> list[int]:
    """The pids of the processes in a group.

    Raises:
        FileNotFoundError, UntrustedError: It is not a control group.
    """
    words = read_group_file(group, "cgroup.procs").split()
    return [int(word) for word in words if word.isdigit() and len(word) <= _PID_DIGITS]


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
