"""The node of an experiment: a Docker engine of its own, held to one core and before everything else on it.

It owns the engine's place on the machine. CPU shares mean what they say on one core only: on several, the kernel balances
a few single threads too coarsely. What else the machine does still costs cache and memory bandwidth.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from steepest.testing import docker_images
from steepest.testing.docker_engine import DockerEngine, running_engine

CPU_M = 800
"""The node's size in millicores. The rest of its core is for the kernel, and for what the engine does."""

WEIGHT = 64
"""So many times the weight of any other process on its core."""

_GROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def node() -> Iterator[DockerEngine]:
    """The engine with the demo's image, for the time of the block.

    Raises:
        InputError: What it needs is missing.
    """
    with contextlib.ExitStack() as stack:
        # Sockets have short names, so not below a state folder.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="steepest-")))
        engine = stack.enter_context(running_engine(folder / "engine", cpu_m=CPU_M))
        _hold(engine.group, max(os.sched_getaffinity(0)))
        with contextlib.closing(engine.client()) as client:
            docker_images.provide(client, docker_images.default_folder(), demo=True)
        yield engine


def _hold(group: str, core: int) -> None:
    if (_GROUPS / "cgroup.controllers").exists():
        (_GROUPS / "cgroup.subtree_control").write_text("+cpu +cpuset")
        (_GROUPS / group / "cpuset.cpus").write_text(str(core))
        (_GROUPS / group / "cpu.weight").write_text(str(min(100 * WEIGHT, 10_000)))
        return
    placed = _GROUPS / "cpuset" / group
    placed.mkdir(exist_ok=True)
    (placed / "cpuset.cpus").write_text(str(core))
    (placed / "cpuset.mems").write_text((_GROUPS / "cpuset" / "cpuset.mems").read_text())
    (_GROUPS / "cpu" / group / "cpu.shares").write_text(str(1024 * WEIGHT))
