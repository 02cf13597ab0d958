"""A pool as the log of a state folder has it, read without changing anything, whether a system runs or not.

It owns opening, folding (newest snapshot and the tail behind it, or all from the beginning) and finding a job by name.
It must never know how anything is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from steepest.app.installation import open_log, open_snapshots
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import Installation, StateFolder
from steepest.clock import SystemClock
from steepest.errors import InputError, UndecodableError
from steepest.events.received import Received
from steepest.log.base import Log, Record, TopicPartition
from steepest.runtime.decode import received
from steepest.runtime.recovery.loop_snapshots import read_pool_snapshot
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job


class StoredPool(msgspec.Struct, kw_only=True):
    """A pool at one moment.

    Attributes:
        name: Its name.
        folder: The state folder, with what is the pool's own.
        at: Its partition.
        up: Whether a system runs on it.
        now_ms: The wall clock while a system runs, else the time of the newest record: nothing has passed since.
    """

    name: str
    folder: StateFolder
    installation: Installation
    at: TopicPartition
    view: ClusterView
    up: bool
    now_ms: int

    def job(self, name: str) -> Job:
        """The job of that name.

        Raises:
            InputError: There is none; the message names the closest ones.
        """
        job = self.view.jobs.get(name)
        if job is not None:
            return job
        import difflib

        close = difflib.get_close_matches(name, [each.name for each in self.view.jobs], n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "see `steepest jobs --all`"
        raise InputError(f"there is no job {name!r} in {self.folder.root}", code="no-such-job", hint=hint)

    def has_stopped(self, job: Job) -> bool:
        """Whether the processes of a job that the log holds to be running have ended since: `down` stops them."""
        if self.up or not job.alive:
            return False
        from steepest.cluster.folders.adapter_folder import AdapterFolder
        from steepest.cluster.observation import recorded_end
        from steepest.cluster.port import ReplicaId

        files = AdapterFolder(self.folder.cluster)
        replicas = [ReplicaId(job.name, index) for index in range(len(job.nodes))]
        return all(recorded_end(files.incarnation(one, job.incarnation)) is not None for one in replicas)

    @property
    def note(self) -> str:
        """A warning for a reader that no system runs; empty where one does."""
        root = self.folder.root
        return "" if self.up else f"Steepest does not run on {root}; this is the last known state"


def is_at_rest(settings: Settings) -> bool:
    """Whether nothing more comes: a log in files, on which no system runs. Over Kafka, others may write."""
    return settings.folder.kafka_place() is None and not settings.kafka.bootstrap and not settings.folder.is_up


def look(settings: Settings) -> StoredPool:
    """The pool of a state folder as it stands now.

    Raises:
        InputError: There is no installation in the folder.
        RecordingError: It is damaged, or of another version.
    """
    return asyncio.run(_look(settings))


async def _look(settings: Settings) -> StoredPool:
    async with reading(settings) as (installation, log):
        return await fold(settings, installation, log)


@asynccontextmanager
async def reading(settings: Settings) -> AsyncIterator[tuple[Installation, Log]]:
    """A state folder's log, read only."""
    installation = settings.folder.read()
    log = open_log(settings, installation, read_only=True)
    try:
        yield installation, log
    finally:
        await log.close()


class RecordListener(Protocol):
    """Is called with each record, in order, after it was folded."""

    def __call__(self, view: ClusterView, received: Received[Any], *, accepted: bool) -> None:
        """``view`` holds the record; ``accepted`` says whether it changed anything."""


async def fold(
    settings: Settings,
    installation: Installation,
    log: Log,
    on_record: RecordListener | None = None,
    until: int | None = None,
) -> StoredPool:
    """The pool of a log that is open. With a listener, every record is folded, from the first one on.

    Args:
        settings: Which pool.
        installation: What the state folder is.
        log: The log.
        on_record: The listener.
        until: The first offset that is left out, with a listener; None: nothing is.

    Raises:
        InputError: The records that this takes were removed, or are not there yet.
    """
    name = settings.pool or installation.pool
    at = installation.layout.of_pool(name)
    view = ClusterView() if on_record else await _view_to_begin_with(settings, log, at)
    begin = await log.begin(at)
    if view.position < begin:
        what = "no snapshot that can be read reaches so far" if on_record is None else "how it came to be so is gone"
        raise InputError(
            f"{at} is kept from {begin} on: {what}",
            code="offset-missing",
            hint="look at a recording that was made before, or at `steepest events`, which begins with what is left",
        )
    if until is not None and until > await log.end(at):
        raise InputError(
            f"{at} ends at {await log.end(at)}, before {until}",
            code="offset-missing",
            hint="name a record that `steepest events` shows",
        )
    at_ms = 0
    async for record in records_to_end(log, at, max(0, view.position - 1)):
        if until is not None and record.offset >= until:
            break
        at_ms = record.at_ms
        if record.offset < view.position:
            continue  # only its time is wanted: the snapshot holds the rest
        folded = fold_one(view, record)
        if folded is not None and on_record is not None:
            on_record(view, folded[0], accepted=folded[1])
    folder = settings.folder.of_pool(installation, name)
    up = until is None and folder.is_up
    now_ms = SystemClock().now_ms() if up else at_ms
    return StoredPool(name=name, folder=folder, installation=installation, at=at, view=view, up=up, now_ms=now_ms)


def fold_one(view: ClusterView, record: Record) -> tuple[Received[Any], bool] | None:
    """Fold a record; the event and whether it counts, or None where it cannot be read."""
    try:
        event = received(record)
    except UndecodableError:
        view.skip(record.offset)
        return None
    return event, view.fold(event)


async def records_to_end(log: Log, at: TopicPartition, start: int = 0) -> AsyncIterator[Record]:
    """The records that are in a partition now, from an offset on, or from the first that is left."""
    start, end = max(start, await log.begin(at)), await log.end(at)
    if start >= end:
        return
    reader = log.reader({at: start})
    try:
        position = start
        while position < end:
            for record in await reader.poll():
                position = record.offset + 1
                yield record
    finally:
        await reader.close()


async def _view_to_begin_with(settings: Settings, log: Log, at: TopicPartition) -> ClusterView:
    snapshot = await read_pool_snapshot(open_snapshots(settings, log), log, at)
    return ClusterView() if snapshot is None else ClusterView(snapshot.view)
