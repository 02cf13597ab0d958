"""What is over is forgotten without a look at all that the cluster holds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from steepest.cluster.port import Cluster, ReplicaFiles
from steepest.errors import RefusedError
from steepest.sagas.janitor import FORGET_AFTER_MS, Janitor
from steepest.testing.scenarios.folded_pool import FoldedPool

NODES = {f"w{number}": 1_000 for number in range(20)}


class Notes:
    """A cluster that notes what it is to forget."""

    def __init__(self) -> None:
        self.forgotten: asyncio.Queue[str] = asyncio.Queue()
        self.looks = 0

    async def forget(self, job: str) -> None:
        """Note it; the first is still running, for all that is known."""
        self.forgotten.put_nowait(job)
        if job == "a":
            raise RefusedError(f"{job} runs", code="still-running")

    def files(self, _: str) -> Sequence[ReplicaFiles]:
        """Count the look, for which every incarnation's record is read."""
        self.looks += 1
        return ()


async def test_each_job_that_is_over_is_forgotten_once() -> None:
    """One call a job, however many nodes there are; that one is refused keeps none of the others."""
    pool, cluster = FoldedPool(**NODES), Notes()
    for job in ("a", "b", "c"):
        pool.run(job, "w1")
        pool.end(job)
    janitor = Janitor(cast("Cluster", cluster))
    janitor.caught_up(pool.view)
    tidying = asyncio.create_task(janitor.run())
    for _ in range(2):
        pool.tick(FORGET_AFTER_MS)
        janitor.observe(pool.view, pool.log[-1].event)
    forgotten = [await cluster.forgotten.get() for _ in range(3)]
    tidying.cancel()

    assert forgotten == ["a", "b", "c"]
    assert cluster.forgotten.empty()
    assert cluster.looks == 0
