"""This machine as a node: its cores and memory less a reserve for the system and its users, and its GPUs."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from steepest.errors import InputError
from steepest.events.common import Resources, is_name

RESERVE = 0.1
"""The share of cores and memory that is left for the system and its users."""

RESERVE_MOST = Resources(cpu_m=2_000, memory_mib=4_096)

_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Limits of a container, by the two versions of control groups."""


def own_name() -> str:
    """The machine's name as a node's."""
    name = socket.gethostname().partition(".")[0].lower()
    return name if is_name(name) else "local"


def own_capacity() -> Resources:
    """The capacity of this machine as a node."""
    # The cores that this process may use, where the system says so: a container may have fewer than the machine.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cpu_m, memory_mib = cores * 1000, _memory_mib()
    return Resources(
        cpu_m - min(round(cpu_m * RESERVE), RESERVE_MOST.cpu_m),
        memory_mib - min(round(memory_mib * RESERVE), RESERVE_MOST.memory_mib),
        _gpus(),
    )


def _memory_mib() -> int:
    """The machine's memory, or its container's limit if that is less."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in map(Path, _MEMORY_LIMITS):
        try:
            found.append(int(path.read_text(encoding="ascii")))
        except (OSError, ValueError):  # there is no such control group, or no limit
            continue
    return min(found) >> 20


def _gpus() -> int:
    from steepest.cluster.nvml import count_gpus  # noqa: PLC0415 - new folders alone need it

    try:
        return count_gpus()
    except InputError:
        return 0
