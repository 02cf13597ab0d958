"""What a contender of the benchmark is: how it is started, given its jobs and ended.

It must never judge what became of the jobs: the fake kubelets say that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import msgspec
import psutil
from benchmarks.kubernetes.bare_cluster import BareCluster
from benchmarks.kubernetes.control_plane import ControlPlane


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """What a contender finds: a control plane of its own.

    Attributes:
        programs: The folder of what ``make kubernetes-programs`` and the like build.
        folder: Of this turn.
        plane: The control plane.
        cluster: What is in it.
        nodes: How many nodes it has.
    """

    programs: Path
    folder: Path
    plane: ControlPlane
    cluster: BareCluster
    nodes: int


class Contender(ABC):
    """One of them, for one turn.

    Args:
        stage: Where it runs.

    Attributes:
        name: In the results.
        users: Who sends its requests.
        restarts: How often a process of it was stuck, and was started again.
    """

    name: ClassVar[str]
    users: ClassVar[tuple[str, ...]]

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.restarts = 0

    @classmethod
    def missing(cls, programs: Path) -> str:
        """Why it cannot run here, and which command changes that; empty where it can."""
        del programs
        return ""

    @abstractmethod
    async def start(self) -> None:
        """Start it; returns when it takes jobs."""

    @abstractmethod
    async def submit(self, jobs: int) -> Mapping[str, float]:
        """Submit all jobs, at most :data:`~benchmarks.kubernetes.control_plane.QPS` a second.

        Returns:
            By job, the wall clock in seconds when the first request for it was sent.
        """

    def processes(self) -> Mapping[str, psutil.Process]:
        """What runs beside the control plane for it, by name.

        Raises:
            ClusterError: One has ended.
            RuntimeError: Likewise.
        """
        return {}

    async def decided_ms(self) -> Mapping[str, int]:
        """By job, when it was decided, in milliseconds of the wall clock; empty: it does not say."""
        return {}

    @abstractmethod
    async def stop(self) -> None:
        """End it."""
