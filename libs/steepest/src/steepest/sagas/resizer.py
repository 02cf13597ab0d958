"""The live shell of the limit machine: limits are set on the cluster port, and outcomes go to the log."""

from __future__ import annotations

import asyncio

from steepest.cluster.port import Cluster
from steepest.errors import ClusterError, UncertainError
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.logger import Logger
from steepest.runtime.effector import Effector, Send
from steepest.sagas.limit_machine import LimitMachine, LimitTask
from steepest.view.cluster_view import ClusterView

logger = Logger()

LIMIT_S = 15.0
"""How long a node may take to set a limit."""


class Resizer(Effector):
    """Sets CPU limits: of one job in order, of several jobs concurrently."""

    name = "resizer"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._machine = LimitMachine()
        self._newest: dict[str, LimitTask] = {}
        self._work: asyncio.Queue[str] = asyncio.Queue()
        self._busy: dict[str, None] = {}

    def caught_up(self, view: ClusterView) -> None:
        """Set every limit again."""
        self._machine.caught_up(view)
        self._queue_due()

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Queue the limits that the record changes."""
        self._machine.observe(view, received, accepted=accepted)
        if self._machine.due:
            self._queue_due()

    def _queue_due(self) -> None:
        for task in self._machine.due:
            self._newest[task.job] = task
            self._work.put_nowait(task.job)
        self._machine.due.clear()

    async def run(self, send: Send) -> None:
        """Set the due limits."""
        async with asyncio.TaskGroup() as group:
            while True:
                job = await self._work.get()
                if job not in self._busy and job in self._newest:
                    self._busy[job] = None
                    group.create_task(self._serve(job, send))

    async def _serve(self, job: str, send: Send) -> None:
        """Set the newest limit of a job, until there is none left to set."""
        try:
            while (task := self._newest.pop(job, None)) is not None:
                error = await self._set(task)
                if error is not None and error.code != "not-running":  # a job may end before its limit is set
                    logger.warning("a limit was not set", job=job, cpu_m=task.cpu_m, code=error.code, why=str(error))
                outcome = self._machine.answer(task, error)
                if outcome is not None:
                    await send(outcome, trace=task.trace)
        finally:
            del self._busy[job]

    async def _set(self, task: LimitTask) -> ClusterError | None:
        try:
            async with asyncio.timeout(LIMIT_S):
                for replica in task.replicas:
                    await self._cluster.limit(replica, task.incarnation, task.cpu_m)
        except ClusterError as error:
            return error
        except TimeoutError:
            return UncertainError("the cluster did not answer in time", code="timeout")
        except Exception as error:
            logger.exception("a limit failed in a way that no adapter should", task=task)
            return UncertainError(f"{type(error).__name__}: {error}", code="bug")
        return None
