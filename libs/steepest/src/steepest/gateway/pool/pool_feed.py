"""A pool's log, folded as it grows: what the API answers from, and what the live page is sent.

It owns following the log. It must never know HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from steepest.clock import SystemClock
from steepest.errors import LogUnavailableError, UndecodableError
from steepest.events import cluster as c
from steepest.events.dead_letter import DeadLetter
from steepest.events.received import Received
from steepest.gateway.metrics import FeedWatch
from steepest.gateway.pool.changes import ChangeBatch, PoolChanges, QueueRow, Ring, Totals
from steepest.gateway.pool.pictures import brief, job_of, queue_rows, totals, whole
from steepest.log.base import Log, Record, TopicPartition
from steepest.logger import Logger
from steepest.read_models.decisions import DecisionEntry, decision
from steepest.read_models.job_rows import JobRow
from steepest.read_models.node_rows import NodeRow, node_row
from steepest.read_models.pool_history import PoolHistory
from steepest.read_models.run_timeline import RunTimeline
from steepest.runtime.decode import received
from steepest.runtime.layout import DEAD_LETTERS
from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.lag import LagMeter
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job

logger = Logger()

DECISIONS_KEPT = 5_000
DEAD_LETTERS_KEPT = 500
BATCH_S = 0.05
"""Records that come within this time are one batch. It is less than a person sees, and spares listeners."""

SMALL = 200
"""Jobs of a pool whose queue and totals are worked out for each batch."""

QUEUE_EVERY_S = 1.0
"""How often they are of a larger one: that goes through every job and node."""

FORGOTTEN_AT_ONCE = 1_000
"""Jobs that the view has forgotten and whose courses are kept nevertheless."""

AGAIN_S = 1.0


class PoolFeed:
    """A pool, as far as its log was read.

    Attributes:
        name: The pool's name.
        at: Its partition.
        timeline: The pool, with the courses of its jobs.
        history: Its runs, waits and moves.
        decisions: The newest entries, oldest first.
        letters: The newest dead letters of the installation.
        ring: What listeners are sent.
        ready: Set once everything is read that was there at the beginning.
    """

    def __init__(
        self,
        name: str,
        at: TopicPartition,
        log: Log,
        *,
        begin: ClusterView | None = None,
        now_ms: Callable[[int], int],
        is_up: Callable[[], bool],
        watch: FeedWatch | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            name: The pool's name.
            at: Its partition.
            log: Where it is.
            begin: The view to begin with, where the log is too long to be read, or its beginning was removed.
            now_ms: Gives the time to show at the time of the newest record.
            is_up: Whether a system runs on the pool.
            watch: Gets the position of the feed after each batch; None: it is not watched.
        """
        self.name = name
        self.at = at
        self.timeline = RunTimeline() if begin is None else RunTimeline.resumed(begin, 0)
        self.history = PoolHistory()
        self.decisions: deque[DecisionEntry] = deque(maxlen=DECISIONS_KEPT)
        self.dead_letters: deque[DeadLetter] = deque(maxlen=DEAD_LETTERS_KEPT)
        self.ring = Ring()
        self.ready = asyncio.Event()
        self._log = log
        self._watch = watch or FeedWatch(Metrics(), Health(SystemClock()))
        self._watch.expect(name)
        self._lag = LagMeter(log)
        self._now_ms = now_ms
        self.is_up = is_up
        self._expected: dict[str, asyncio.Future[str | None]] = {}
        self._dead_letters = 0
        self._sent_nodes: dict[str, NodeRow] = {}
        self._queue: Sequence[QueueRow] = ()
        self._queue_at = 0.0
        self._picture: ChangeBatch | None = None

    @property
    def view(self) -> ClusterView:
        """The pool."""
        return self.timeline.view

    @property
    def now_ms(self) -> int:
        """See :class:`~steepest.read_models.job_rows.PoolMoment`."""
        return self._now_ms(self.timeline.now_ms)

    def has_stopped(self, job: Job) -> bool:  # noqa: ARG002 - the files of its processes may be elsewhere
        """See :class:`~steepest.read_models.job_rows.PoolMoment`."""
        return False

    def job(self, name: str) -> Job:
        """The job of that name.

        Raises:
            InputError: There is none.
        """
        return job_of(self.view, name)

    @contextlib.contextmanager
    def expecting(self, request: str) -> Iterator[asyncio.Future[str | None]]:
        """A future answer to a submission: why it is rejected, or None once it is admitted."""
        answer = self._expected.setdefault(request, asyncio.get_running_loop().create_future())
        try:
            yield answer
        finally:
            self._expected.pop(request, None)

    async def until(self, offset: int, most_s: float) -> None:
        """Wait until the record of an offset is read, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                while self.view.position <= offset:
                    await self.ring.news()

    # --- following ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the log until cancelled; where it cannot be read, try again."""
        while True:
            try:
                await self._follow()
            except LogUnavailableError as error:
                logger.warning("the log cannot be read; trying again", error=str(error))
                self._watch.wait(self.name)
                await asyncio.sleep(AGAIN_S)

    async def _follow(self) -> None:
        start = {self.at: self.view.position}
        known = {self.at: await self._log.end(self.at)}
        for at in await self._log.partitions(DEAD_LETTERS.topic):
            start[at] = max(await self._log.begin(at), await self._log.end(at) - DEAD_LETTERS_KEPT)
        self._dead_letters = 0
        reader = self._log.reader(start)
        try:
            if self.view.position >= known[self.at]:
                self.ready.set()
            while True:
                records = await reader.poll(timeout_s=1.0)
                self._take(records)
                if self.view.position >= known[self.at]:
                    self.ready.set()
                lag = await self._lag.lag({self.at: self.view.position})
                self._watch.progress(self.name, self.view.position, lag, len(records), ready=self.ready.is_set())
                await asyncio.sleep(BATCH_S if records and self.ready.is_set() else 0)
        finally:
            self._lag.close()
            await reader.close()

    def _take(self, records: Sequence[Record]) -> None:
        begin = self.view.position
        touched: dict[str, None] = {}
        entries: list[DecisionEntry] = []
        for record in records:
            event = self._event(record)
            if event is None:
                continue
            if record.at != self.at:  # the first record of each partition is its identity, and no dead letter
                if isinstance(event.event, DeadLetter):
                    self.dead_letters.append(event.event)
                    self._dead_letters += 1
                continue
            self.timeline.fold(event)
            self.history.note(self.view, event, accepted=self.timeline.accepted)
            entry = decision(self.view, event, accepted=self.timeline.accepted)
            if entry is not None:
                entries.append(entry)
            for name in _about(event.event):
                touched[name] = None
            self._answer(event.event)
        self.decisions.extend(entries)
        self._forget()
        if records and self.ready.is_set():
            self._send(begin, touched, entries)

    def _event(self, record: Record) -> Received[Any] | None:
        try:
            return received(record)
        except UndecodableError:
            if record.at == self.at:
                self.view.skip(record.offset)
            return None

    def _forget(self) -> None:
        """Forget the courses of jobs that the view has forgotten."""
        if len(self.timeline.jobs) > len(self.view.jobs) + FORGOTTEN_AT_ONCE:
            for name in [name for name in self.timeline.jobs if name not in self.view.jobs]:
                del self.timeline.jobs[name]

    def _answer(self, event: c.ClusterEvent) -> None:
        if not isinstance(event, c.JobAdmitted | c.JobRejected):
            return
        answer = self._expected.get(event.request)
        if answer is not None and not answer.done():
            answer.set_result(event.reason if isinstance(event, c.JobRejected) else None)

    # --- sending --------------------------------------------------------------------------------------------------------

    def _send(self, begin: int, touched: Mapping[str, None], entries: Sequence[DecisionEntry]) -> None:
        rows = [self.brief(self.view.jobs[name]) for name in touched if name in self.view.jobs]
        changes = PoolChanges(
            pool=self.name,
            offset=self.view.position,
            at_ms=self.timeline.now_ms,
            up=self.is_up(),
            jobs=rows,
            nodes=self._changed_nodes(),
            decisions=entries,
        )
        if self._is_due():
            queue, changes.totals = self.queue(), self.totals()
            if queue != self._queue:
                changes.queue = self._queue = queue
        self._picture = None
        self.ring.add(ChangeBatch(begin, self.view.position, msgspec.json.encode(changes)))

    def _changed_nodes(self) -> list[NodeRow]:
        changed = []
        for node in self.view.nodes:
            row = node_row(self.view, node)
            if self._sent_nodes.get(node.name) != row:
                self._sent_nodes[node.name] = row
                changed.append(row)
        return changed

    def _is_due(self) -> bool:
        """Whether to work out what goes through every job: of a large pool, only now and then."""
        now = asyncio.get_running_loop().time()
        if len(self.view.jobs) > SMALL and now < self._queue_at + QUEUE_EVERY_S:
            return False
        self._queue_at = now
        return True

    def picture(self) -> ChangeBatch:
        """The whole pool, for a listener that begins; the same one for all that begin before the next record."""
        if self._picture is None:
            self._picture = ChangeBatch(0, self.view.position, msgspec.json.encode(self.changes()))
        return self._picture

    def changes(self) -> PoolChanges:
        """The whole pool."""
        return whole(self.name, self, list(self.decisions)[-500:], self.totals(), up=self.is_up())

    def brief(self, job: Job) -> JobRow:
        """A job's row without its command, which may be long."""
        return brief(self, job, None)

    def queue(self) -> list[QueueRow]:
        """The queue, in its order."""
        return queue_rows(self.view)

    def newest_queue(self) -> Sequence[QueueRow]:
        """The queue as it was worked out last, which may be a second ago."""
        if not self._queue_at:
            self._queue, self._queue_at = self.queue(), asyncio.get_running_loop().time()
        return self._queue

    def totals(self) -> Totals:
        """Numbers of the pool."""
        return totals(self.view, self._dead_letters)


def _about(event: c.ClusterEvent) -> list[str]:
    """The jobs that an event is about."""
    names = [name] if (name := getattr(event, "job", None)) else []
    return [*names, *getattr(event, "jobs", ()), *(limit.job for limit in getattr(event, "limits", ()))]


async def _all_ready(feeds: Sequence[PoolFeed]) -> None:
    for feed in feeds:
        await feed.ready.wait()


async def following(feeds: Sequence[PoolFeed]) -> list[asyncio.Task[None]]:
    """Follow the logs of some pools; return once all of what is there was read."""
    tasks = [asyncio.create_task(feed.run(), name=f"feed {feed.name}") for feed in feeds]
    ready = asyncio.create_task(_all_ready(feeds))
    await asyncio.wait([ready, *tasks], return_when=asyncio.FIRST_COMPLETED)
    if not ready.done():
        ready.cancel()
        await asyncio.gather(*(task for task in tasks if task.done()))  # raises what ended it
    return tasks


async def stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    """End what follows."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
