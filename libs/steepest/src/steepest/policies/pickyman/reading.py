"""How much of its epoch each incarnation has yet to read, and how long that takes at its present rate.

It owns the counts of bytes in the pool's log: since when they count, and when they say nothing. Time alone begins an epoch
only until the next count: one that is late is late, until the bytes of the next one come. What a process says of its steps
is not looked at.

A count that falls was reset or has wrapped: what is left is unknown for the rest of the incarnation, since the profiler
counts on. One that rises by more than an epoch has jumped, or there were no heartbeats: what is left is unknown until an
epoch ends and is measured.
"""

from __future__ import annotations

from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.policies.pickyman.profiler_epochs import slack
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Phase, PlanKind

JOBS_KEPT = 20_000
"""Jobs that are remembered; beyond that, the one that was heard of least recently is forgotten."""

POINTS_KEPT = 12
"""Counts that the present rate is computed from: about as many seconds."""

STALE_MS = 15_000
"""A count that is older says nothing of where the job is."""

AHEAD_MS = 2_000
"""For so long after a count, the job is taken to read on at its rate."""

SURELY_MS = 150
"""By how much the end of an epoch must lie back to be taken for past: it is known to some tenths of a second."""

LOST_AFTER = 4
"""Epochs without a measured end after which the counts contradict the measured epochs; three ends come before the first."""

PRIOR_SHARE = 0.1
"""Of an epoch: so much is added to what was read of this one, at the rate of those before."""

SLOWEST = 10.0
"""By how much a rate may fall below that of the epochs before."""

NEWEST = 0.3
"""Weight of the newest epoch in means."""


class KnownEpoch(msgspec.Struct, frozen=True):
    """The epochs of a job as far as they were measured.

    Attributes:
        epoch_bytes: What all replicas read in one.
        read_ms: How long that takes.
        idle_ms: The pause at its end: evaluation, checkpoint, what lies in buffers.
        data_bytes: Size of the data set, as announced.
        load_bytes: What is read before the first one; None: unknown.
    """

    epoch_bytes: int
    read_ms: float
    idle_ms: float = 0.0
    data_bytes: int | None = None
    load_bytes: int | None = None


class EpochReading(msgspec.Struct):
    """What an incarnation has read of its epoch.

    Attributes:
        counts: The newest count of each replica.
        points: Times and sums of the counts in the epoch under way, the oldest first.
        began: Time and count at which it began; None: no end of an epoch was measured in this incarnation.
        full_ms: When the last byte of it was read; None: some are left.
        rises: When the sum of the counts rose last, and when before that.
        lost: A count fell.
        jumped: A count rose by more than an epoch, and no end was measured since.
    """

    incarnation: int
    counts: dict[int, int] = {}
    points: list[tuple[int, int]] = []
    began: tuple[int, int] | None = None
    full_ms: float | None = None
    rises: list[int] = []
    lost: bool = False
    jumped: bool = False


class Readings(msgspec.Struct):
    """The incarnations that run, and the epochs of jobs and models; all of it bounded."""

    running: dict[str, EpochReading] = {}
    jobs: dict[str, KnownEpoch] = {}
    models: dict[str, KnownEpoch] = {}

    def observe(self, view: ClusterView, event: c.ClusterEvent, at_ms: int) -> None:
        """Take in a record that counts. Work: O(1), and O(replicas) for the usage of a node."""
        match event:
            case c.NodeUsage():
                for found in event.progress:
                    job = view.jobs.get(found.job)
                    if job is not None and job.alive and job.incarnation == found.incarnation:
                        self._count(job, found, at_ms)
            case c.EpochMeasured() if (job := view.jobs.get(event.job)) is not None:
                self._epoch(view, job, event)
            case c.JobSuspended():
                self.running.pop(event.job, None)
            case c.JobEnded() | c.JobRejected() if view.jobs.is_over(event.job):
                self.running.pop(event.job, None)

    def left_ms(self, job: Job, at_ms: int) -> int | None:
        """Time until the epoch under way ends, its pause included; None: unknown. Never more than one epoch.

        An end that was to come since the newest count has come: then the next epoch is under way.
        """
        known, reading = self.known(job), self.running.get(job.name)
        if known is None or reading is None or reading.incarnation != job.incarnation:
            return None
        left = _bytes_left(reading, known)
        if left is None or not 0 <= at_ms - reading.points[-1][0] <= STALE_MS:
            return None
        counted_ms = reading.points[-1][0]
        full_ms = reading.full_ms if reading.full_ms is not None or not reading.rises else float(reading.rises[-1])
        now_ms = at_ms
        if left or full_ms is None:
            full_ms = counted_ms + left / _rate(reading, known)
            now_ms = min(at_ms, counted_ms + AHEAD_MS)
        ends_ms = full_ms + known.idle_ms
        if ends_ms >= now_ms:
            return round(ends_ms - now_ms)
        is_over = counted_ms < ends_ms < now_ms - SURELY_MS and at_ms - counted_ms <= AHEAD_MS
        return round(max(known.read_ms + known.idle_ms - (now_ms - ends_ms), 0.0)) if is_over else 0

    def loading(self, job: Job) -> tuple[int, int] | None:
        """What the incarnation has read, and what it reads before its first epoch; None: one of them is unknown."""
        known, reading = self.known(job), self.running.get(job.name)
        if known is None or not known.load_bytes or reading is None or reading.incarnation != job.incarnation:
            return None
        if reading.lost or len(reading.counts) < len(job.nodes):
            return None
        return sum(reading.counts.values()), known.load_bytes

    def known(self, job: Job) -> KnownEpoch | None:
        """The job's epochs; before one was measured, those of its model in proportion to the announced size."""
        own = self.jobs.get(job.name)
        if own is not None:
            return own
        alike, data = self.models.get(job.spec.model) if job.spec.model else None, job.spec.data_bytes
        if alike is None or not data or not alike.data_bytes:
            return None
        share = data / alike.data_bytes
        return KnownEpoch(
            max(round(alike.epoch_bytes * share), 1), alike.read_ms * share, alike.idle_ms, data, alike.load_bytes
        )

    def _count(self, job: Job, found: c.ReplicaProgress, at_ms: int) -> None:
        reading = self.running.pop(job.name, None)
        if reading is None or reading.incarnation != job.incarnation:
            reading = EpochReading(job.incarnation)
        _put(self.running, job.name, reading)
        before = reading.counts.get(found.replica)
        if found.read_bytes is None or reading.lost:
            return
        if before is not None and found.read_bytes < before:
            reading.lost, reading.points = True, []
            return
        reading.counts[found.replica] = found.read_bytes
        if len(reading.counts) < len(job.nodes):
            return
        known, read = self.known(job), sum(reading.counts.values())
        if known is not None and reading.points and read - reading.points[-1][1] > known.epoch_bytes:
            reading.jumped, reading.points = True, []
        if not reading.points or read > reading.points[-1][1]:
            reading.rises = [*reading.rises[-1:], at_ms]
        while reading.points and reading.points[-1][0] >= at_ms:
            del reading.points[-1]
        reading.points.append((at_ms, read))
        if known is not None:
            _begin_or_end(reading, known)
        del reading.points[:-POINTS_KEPT]

    def _epoch(self, view: ClusterView, job: Job, event: c.EpochMeasured) -> None:
        seen, reading = job.epochs_seen, self.running.get(job.name)
        if seen is None or seen.ended_ms is None:
            return
        known = self.known(job)
        read_ms, idle_ms = (float(event.epoch_ms), 0.0) if known is None else (known.read_ms, known.idle_ms)
        plan = view.plan_of(job)
        stops = job.phase is Phase.SUSPENDED or (plan is not None and plan.kind is PlanKind.SUSPEND)
        if reading is not None and reading.began and reading.full_ms and not (reading.jumped or stops):
            took_ms = reading.full_ms - reading.began[0]
            paused_ms = max(seen.ended_ms - reading.full_ms, 0.0)
            if 0 < took_ms <= 2 * event.epoch_ms:
                weight = NEWEST if known is not None and known.idle_ms else 1.0
                read_ms += weight * (took_ms - read_ms)
                idle_ms += weight * (paused_ms - idle_ms)
        elif known is None and reading is not None and reading.incarnation == event.incarnation:
            idle_ms = min(_paused_ms(reading, seen.ended_ms), read_ms / 2)
            read_ms -= idle_ms
        load = event.load_bytes if event.load_bytes is not None or known is None else known.load_bytes
        _put(self.jobs, job.name, now := KnownEpoch(event.epoch_bytes, read_ms, idle_ms, job.spec.data_bytes, load))
        if job.spec.model:
            _put(self.models, job.spec.model, now)
        if reading is not None and reading.incarnation == event.incarnation:
            reading.began, reading.full_ms, reading.jumped = (seen.ended_ms, event.read_bytes), None, False
            newer = [point for point in reading.points if point[0] > seen.ended_ms and point[1] >= event.read_bytes]
            reading.points = [] if reading.lost else [reading.began, *newer]


def _paused_ms(reading: EpochReading, ended_ms: int) -> float:
    """How long nothing was read before an epoch ended; 0 unless a count says so that came in between.

    The one with the first bytes of the next epoch may not be in the log yet.
    """
    rose_ms = max((at_ms for at_ms in reading.rises if at_ms < ended_ms), default=ended_ms)
    is_seen = any(rose_ms < at_ms < ended_ms for at_ms, _ in reading.points)
    return float(ended_ms - rose_ms) if is_seen else 0.0


def _put(kept: dict[str, Any], name: str, value: object) -> None:
    kept.pop(name, None)
    kept[name] = value
    if len(kept) > JOBS_KEPT:
        del kept[next(iter(kept))]


def _since(reading: EpochReading, known: KnownEpoch, read: int) -> int | None:
    """Bytes since the epoch began that a count is in; None: unknown. The end of one may not be in the log yet."""
    base = known.load_bytes if reading.began is None else reading.began[1]
    if base is None:
        return None
    since, whole = read - base, known.epoch_bytes
    if since > LOST_AFTER * whole or (reading.began is not None and since < -whole / 2):
        return None
    over = int(max(since - slack(whole) - 1, 0) // whole)  # within the slack, the epoch before is not over
    return since - over * whole


def _bytes_left(reading: EpochReading, known: KnownEpoch) -> float | None:
    if reading.lost or reading.jumped or not reading.points:
        return None
    since = _since(reading, known, reading.points[-1][1])
    if since is None:
        return None
    left = known.epoch_bytes - max(since, 0)
    return 0.0 if left <= slack(known.epoch_bytes) else float(left)


def _rate(reading: EpochReading, known: KnownEpoch) -> float:
    """Bytes a millisecond at present; that of the epochs before counts for a part of an epoch."""
    usual = known.epoch_bytes / max(known.read_ms, 1.0)
    (from_ms, low), (until_ms, high) = reading.points[0], reading.points[-1]
    prior_ms = PRIOR_SHARE * max(known.read_ms, 1.0)
    found = (high - low + usual * prior_ms) / (until_ms - from_ms + prior_ms)
    return max(found, usual / SLOWEST)


def _begin_or_end(reading: EpochReading, known: KnownEpoch) -> None:
    """With the newest count, the epoch begins, or its last byte was read, or bytes of the next one came."""
    since = _since(reading, known, reading.points[-1][1])
    if since is not None and since <= 0:
        reading.points = reading.points[-1:]  # the rate of what comes before an epoch is another one
    if since is None or since < known.epoch_bytes - slack(known.epoch_bytes):
        if since is not None and reading.full_ms is not None:  # the next epoch, whose beginning is not in the log yet
            reading.full_ms, reading.points = None, reading.points[-1:]
        return
    if reading.full_ms is not None:
        return
    at_ms = float(min([reading.points[-1][0], *reading.rises[-1:]]))
    if len(reading.points) > 1:
        before_ms, before = reading.points[-2]
        earlier = msgspec.structs.replace(reading, points=reading.points[:-1])
        had = _since(reading, known, before)
        if had is not None and had < known.epoch_bytes:
            at_ms = min(at_ms, before_ms + (known.epoch_bytes - had) / _rate(earlier, known))
    reading.full_ms = at_ms
