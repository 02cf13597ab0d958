"""The effector that sends messages about findings, and says so in the log.

It owns when: a task for each target, so that one that does not answer holds up no other and nothing else; a message as
soon as there is news, then pauses that double, so that a job that hangs and goes on by turns is not a message each time.
A message is sent at least once: one that arrived just before the process died is sent again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import quote

from steepest.clock import Clock
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.logger import Logger
from steepest.notify.news import Mailbox, Note, message
from steepest.notify.targets import Target
from steepest.runtime.effector import Effector, Send
from steepest.view.cluster_view import ClusterView

PAUSE_S, WINDOW_S = 60.0, 3_600.0
"""After a message; twice as long for each further one in this time before it."""

AGAIN_S = 60.0
"""After a message that did not arrive."""

Channel = Callable[[str, str], Awaitable[bool]]
"""Sends a title and a text; returns whether they were taken. It raises nothing."""

_log = Logger()


class Notifier(Effector):
    """Notifies targets of one pool's findings.

    Args:
        targets: By name.
        channels: The way to each of them.
        page: The address of the gateway's page, for links; empty: there is none.
        count: Called with a target, ``sent`` or ``failed``, and how many more: at first 0 of each.
    """

    name = "notifier"

    def __init__(
        self,
        targets: Mapping[str, Target],
        channels: Mapping[str, Channel],
        *,
        pool: str,
        clock: Clock,
        page: str = "",
        count: Callable[[str, str, int], None] = lambda *_: None,
    ) -> None:
        self._boxes = [Mailbox(name, target) for name, target in targets.items()]
        self._channels = channels
        self._pool = pool
        self._clock = clock
        self._page = page.rstrip("/")
        self._count = count
        self._news = {box.name: asyncio.Event() for box in self._boxes}

    def caught_up(self, view: ClusterView) -> None:
        """Find what no target was sent while no process followed the pool."""
        for box in self._boxes:
            self._count(box.name, "sent", 0)
            self._count(box.name, "failed", 0)
            for job in view.jobs:
                box.look(job)
        self._wake()

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Look at the job that a record is about."""
        event = received.event
        if not accepted and not isinstance(event, c.TargetNotified):
            return
        name = getattr(event, "job", None)
        job = None if name is None else view.jobs.get(name)
        if job is None:
            if isinstance(event, c.TargetNotified):
                for box in self._boxes:
                    box.forget(event.job)
            return
        if job.findings or job.notified or isinstance(event, c.FindingEnded):
            for box in self._boxes:
                box.look(job, event.why if isinstance(event, c.FindingEnded) else "")
            self._wake()

    def _wake(self) -> None:
        for box in self._boxes:
            if box.waiting:
                self._news[box.name].set()

    async def run(self, send: Send) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as group:
            for box in self._boxes:
                group.create_task(self._serve(box, send))

    async def _serve(self, box: Mailbox, send: Send) -> None:
        lately: deque[float] = deque()
        while True:
            await self._news[box.name].wait()
            self._news[box.name].clear()
            notes = box.take()
            if not notes:
                continue
            if not await self._channels[box.name](*message(notes, box.dropped, self._pool, self._links(notes))):
                self._count(box.name, "failed", 1)
                _log.warning("a message about findings was not taken", target=box.name, findings=len(notes))
                box.not_sent(notes)
                await self._clock.sleep(AGAIN_S)
                self._wake()
                continue
            self._count(box.name, "sent", 1)
            await send(*box.sent(notes))
            now = self._clock.monotonic()
            lately.append(now)
            while lately[0] < now - WINDOW_S:
                lately.popleft()
            await self._clock.sleep(min(PAUSE_S * 2 ** (len(lately) - 1), WINDOW_S))

    def _links(self, notes: list[Note]) -> Mapping[str, str]:
        if not self._page:
            return {}
        return {note.job: f"{self._page}/#/job/{quote(note.job)}" for note in notes}
