"""Reads from a node's control groups what a container uses: of version 2 and of version 1, mounted read-only.

It owns where a container's group is and which files of it are read. Unknown is None, never 0: network traffic is not there.
A kubelet puts a pod's group below ``kubepods``, or with systemd ``kubepods.slice``, which may be below others; a container's
group has its id in its name. Calls block.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from steepest.cluster.kubernetes.nodes.usage import PodSample
from steepest.errors import UntrustedError
from steepest.untrusted import files

_ID = re.compile(r"[a-z0-9-]+://(?P<id>[0-9a-f]{64})")
_UID = re.compile(r"[0-9A-Za-z-]{1,64}")
_FILE_BYTES_MOST = 1 << 16
_FOLDERS_MOST = 20_000
_DEEPEST_ROOT = 3
"""``kubepods`` is at the top, or below one or two groups of the node's own."""

_ROOT = re.compile(r"(.+-)?kubepods(\.slice)?")
_QUALITY = re.compile(r"(.+-)?(burstable|besteffort)(\.slice)?")
_MIB = 1 << 20
_NANOS = 10**9
_MICROS = 10**6


class ContainerGroups:
    """The control groups of a node's containers.

    Args:
        top: Where they are mounted.
        now_s: A monotonic clock in seconds.
    """

    def __init__(self, top: Path, now_s: Callable[[], float] = time.monotonic) -> None:
        self._top = top
        self._now_s = now_s
        self._known: dict[str, str] = {}  # by container, its group's path below a hierarchy

    def sample(self, pod: str, container: str) -> PodSample | None:
        """The counters of a container now; None if they are not known.

        Args:
            pod: The UID of its pod.
            container: Its id, as ``containerd://…``.
        """
        found = _ID.fullmatch(container)
        if found is None or _UID.fullmatch(pod) is None:
            return None
        group = self._known.get(container) or self._find(pod, found["id"])
        if group is None:
            return None
        self._known[container] = group
        at_s, cpu_s = self._now_s(), self._cpu_s(group)
        if cpu_s is None:
            self._known.pop(container)
            return None
        memory = self._memory_mib(group)
        return PodSample(at_s=at_s, cpu_s=cpu_s, memory_mib=memory, network_bytes=None, received_bytes=None)

    def forget(self, container: str) -> None:
        """Forget a container that has ended."""
        self._known.pop(container, None)

    @functools.cached_property
    def _is_version_2(self) -> bool:
        """What the node has mounted stays as it is while an agent runs: it is not looked for with each sample."""
        return self._read(self._top / "cgroup.controllers") is not None

    def _hierarchy(self, controller: str) -> Path:
        """Where a controller's groups are: of version 1, a folder of its own, or one that it shares with others."""
        if self._is_version_2:
            return self._top
        names = [entry.name for entry in self._folders(self._top) if controller in entry.name.split(",")]
        return self._top / (names[0] if names else controller)

    def _cpu_s(self, group: str) -> float | None:
        if self._is_version_2:
            used = _field(self._read(self._top / group / "cpu.stat"), "usage_usec")
            return None if used is None else used / _MICROS
        used = _number(self._read(self._hierarchy("cpuacct") / group / "cpuacct.usage"))
        return None if used is None else used / _NANOS

    def _memory_mib(self, group: str) -> int | None:
        """Memory in use without the file cache that can be dropped immediately, as the kubelet counts it."""
        place = self._hierarchy("memory") / group
        is_new = self._is_version_2
        used = _number(self._read(place / ("memory.current" if is_new else "memory.usage_in_bytes")))
        idle = _field(self._read(place / "memory.stat"), "inactive_file" if is_new else "total_inactive_file")
        return None if used is None or idle is None else max(used - idle, 0) // _MIB

    def _find(self, pod: str, container: str) -> str | None:
        top = self._hierarchy("cpuacct")
        for root in self._roots(top):
            for above in (root, *(each for each in self._below(root) if _QUALITY.fullmatch(each.name))):
                for place in self._below(above):
                    if not _is_of(place.name, pod):
                        continue
                    for group in self._below(place):
                        if container in group.name:
                            return str(group.relative_to(top))
        return None

    def _roots(self, top: Path) -> Iterator[Path]:
        level = [top]
        for _ in range(_DEEPEST_ROOT):
            below = [place for each in level for place in self._below(each)]
            yield from (place for place in below if _ROOT.fullmatch(place.name))
            level = [place for place in below if not _ROOT.fullmatch(place.name)]

    def _below(self, place: Path) -> list[Path]:
        return [place / entry.name for entry in self._folders(place)]

    def _folders(self, place: Path) -> list[files.Entry]:
        try:
            found = files.walk(place, below=self._top, most=_FOLDERS_MOST, deepest=1)
            return sorted((entry for entry in found if entry.is_folder), key=lambda entry: entry.name)
        except (FileNotFoundError, UntrustedError):
            return []

    def _read(self, path: Path) -> bytes | None:
        try:
            return files.read(path, below=self._top, most=_FILE_BYTES_MOST)
        except (OSError, UntrustedError):
            return None


def _is_of(name: str, pod: str) -> bool:
    """Whether a group is a pod's: systemd's names have no dashes in a UID."""
    return name == f"pod{pod}" or name.endswith(f"-pod{pod.replace('-', '_')}.slice")


def _number(content: bytes | None) -> int | None:
    found = (content or b"").strip()
    return int(found) if found.isdigit() and len(found) <= 20 else None  # noqa: PLR2004 - more than 64 bits


def _field(content: bytes | None, name: str) -> int | None:
    for line in (content or b"").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == name.encode():  # noqa: PLR2004 - a name and a number
            return _number(words[1])
    return None
