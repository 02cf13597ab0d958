"""The node of an experiment: a private Docker engine, pinned to one core with priority over everything else on it.

It owns the engine's placement on the machine. Other work on the machine still costs cache and memory bandwidth. There is
only one node at a time: a second one would take half of the core.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from steepest.cluster.folders import incarnation_locks
from steepest.errors import ClusterError
from steepest_lab.docker_engines import images
from steepest_lab.docker_engines.engine_daemon import DockerEngine, running_engine
from steepest_lab.reproduce.testbed.nodes import CPU_M

WEIGHT = 64
"""The node's weight relative to any other process on its core."""

TURN_S = 600.0
"""How long to wait for another experiment on this machine."""

_NICE = -15
"""Niceness of this process and of the engine: their delays count ``SCALE`` times in the experiment's time."""

_LOCK = "steepest-testbed.lock"


@contextlib.contextmanager
def node() -> Iterator[DockerEngine]:
    """The engine with the demo's image, within the block.

    Raises:
        InputError: A requirement is missing, or control groups cannot be created.
        ClusterError: Another experiment runs on this machine for longer than ``TURN_S``.
    """
    with contextlib.ExitStack() as stack:
        turn = incarnation_locks.take(Path(tempfile.gettempdir()) / _LOCK, TURN_S)
        if turn is None:
            raise ClusterError("another experiment runs on this machine", code="busy", hint="wait for its end")
        stack.callback(os.close, turn)
        stack.callback(os.setpriority, os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0))
        with contextlib.suppress(PermissionError):  # root without that capability
            os.setpriority(os.PRIO_PROCESS, 0, _NICE)
        # Not in a state folder, because socket paths must be short.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="steepest-")))
        core = max(os.sched_getaffinity(0))
        engine = stack.enter_context(running_engine(folder / "engine", cpu_m=CPU_M, core=core, weight=WEIGHT))
        with contextlib.closing(engine.client()) as client:
            images.provide(client, images.default_folder(), demo=True)
        yield engine
