"""What the heartbeats of a cluster say of each job, for tests that ask for the newest."""

from __future__ import annotations

from collections.abc import Callable

from steepest.cluster.port import Cluster
from steepest.events.heartbeat import ReplicaReport, ReplicaState


class NewestReports:
    """The newest report of each job."""

    def __init__(self) -> None:
        self.newest: dict[str, ReplicaReport] = {}

    async def follow(self, cluster: Cluster) -> None:
        """Take every heartbeat."""
        async for beat in cluster.heartbeats():
            for report in beat.replicas:
                self.newest[report.job] = report

    def has_ended(self, job: str) -> Callable[[], bool]:
        """Whether it has."""
        return lambda: job in self.newest and self.newest[job].state is not ReplicaState.RUNNING

    def read(self, job: str) -> int:
        """What it has read."""
        count = self.newest[job].read_bytes if job in self.newest else None
        return count or 0
