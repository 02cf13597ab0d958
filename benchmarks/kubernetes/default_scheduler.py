"""The default scheduler alone, which the control plane has: plain Jobs."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.kubernetes.bare_cluster import JOBS, plain_job
from benchmarks.kubernetes.contenders import Contender
from benchmarks.kubernetes.control_plane import QPS, SCHEDULER


class DefaultScheduler(Contender):
    """It binds what it is given, in the order of arrival."""

    name = "default"
    users = (SCHEDULER,)

    async def start(self) -> None:
        """The control plane has started it."""

    async def submit(self, jobs: int) -> Mapping[str, float]:
        """See ``Contender.submit``."""
        made = [plain_job(number) for number in range(jobs)]
        return await self.stage.cluster.post_jobs([[(JOBS, each)] for each in made], per_s=QPS)

    async def stop(self) -> None:
        """It ends with the control plane."""
