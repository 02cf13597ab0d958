"""The node of an experiment: a Docker engine of its own, held to one core and before everything else on it.

It owns the engine's place on the machine. CPU shares mean what they say on one core only: on several, the kernel balances
a few single threads too coarsely. What else the machine does still costs cache and memory bandwidth. There is one node at a
time: a second one would take half of the core.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from steepest.cluster.folders import incarnation_locks
from steepest.docker_lab import images
from steepest.docker_lab.engine_daemon import DockerEngine, running_engine
from steepest.errors import ClusterError, InputError

CPU_M = 800
"""The node's size in millicores. The rest of its core is for the kernel, and for what the engine does."""

WEIGHT = 64
"""So many times the weight of any other process on its core."""

TURN_S = 600.0
"""How long a node that somebody else has on this machine is waited for."""

_NICE = -15
"""Of this process and of the engine: what they are late with counts ``SCALE`` times in the experiment's time."""

_GROUPS = Path("/sys/fs/cgroup")
_LOCK = "steepest-testbed.lock"


@contextlib.contextmanager
def node() -> Iterator[DockerEngine]:
    """The engine with the demo's image, for the time of the block.

    Raises:
        InputError: What it needs is missing, or control groups cannot be made.
        ClusterError: There is another one on this machine all the time.
    """
    with contextlib.ExitStack() as stack:
        turn = incarnation_locks.take(Path(tempfile.gettempdir()) / _LOCK, TURN_S)
        if turn is None:
            raise ClusterError("another experiment runs on this machine", code="busy", hint="wait for its end")
        stack.callback(os.close, turn)
        stack.callback(os.setpriority, os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0))
        with contextlib.suppress(PermissionError):  # root without that capability
            os.setpriority(os.PRIO_PROCESS, 0, _NICE)
        # Sockets have short names, so not below a state folder.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="steepest-")))
        try:
            engine = stack.enter_context(running_engine(folder / "engine", cpu_m=CPU_M))
            _hold(engine.group, max(os.sched_getaffinity(0)))
        except OSError as error:
            raise InputError(
                f"an engine cannot be held to one core here: {error}", hint="run it where root may make control groups"
            ) from error
        with contextlib.closing(engine.client()) as client:
            images.provide(client, images.default_folder(), demo=True)
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
