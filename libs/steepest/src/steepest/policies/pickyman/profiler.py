"""Finds the epochs of each job in the traffic from the storage to its replicas, and in nothing else.

It reads the cumulative count of bytes in heartbeats (:mod:`steepest.policies.pickyman.profiler_trace`), and finds in it a
rhythm (:mod:`steepest.policies.pickyman.profiler_epochs`). What a job says of its steps and epochs is not looked at, so one
that says nothing, or what is not so, is measured as any other. It must never know what a measured epoch is for.

Of a gang, the first replica with a rhythm gives the times; what the others read counts in proportion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest.events.received import Received
from steepest.policies.decider import Decision
from steepest.policies.pickyman.profiler_epochs import Rhythm, is_end, rhythm, slack
from steepest.policies.pickyman.profiler_trace import ReadingPause, Trace, begin, close, observe

JOBS_KEPT = 20_000
"""Jobs that are remembered; of more, the one that was heard of least recently is forgotten."""

LOST_AFTER = 2.5
"""Epochs without an end that fits, after which the rhythm is looked for again."""

_SHORT = 0.5

_SHORTER = 0.25
"""Share of an epoch by which all before the first that was seen may have been shorter than those after it."""


class FoundEpochs(msgspec.Struct):
    """The epochs of the incarnation as far as they were found.

    Attributes:
        replica: Whose traffic shows them.
        epoch_bytes: What this replica reads in an epoch.
        epoch: Number of the newest epoch that is over.
        level: What the replica had read at its end.
        ended_ms: When it ended.
        idle_ms: The shortest pause at an end of an epoch.
        score: How sure it is.
    """

    replica: int
    epoch_bytes: int
    epoch: int
    level: int
    ended_ms: float
    idle_ms: int
    score: float


class JobTraffic(msgspec.Struct):
    """What a job reads.

    Attributes:
        traces: Of the replicas that run, by their numbers.
        ended: What those have read that ended since the newest epoch that was measured, likewise.
        left_bytes: What those have read that ended before it.
        epoch_bytes: What the replica of :class:`FoundEpochs` reads in an epoch, from this or an earlier incarnation.
        load_bytes: What it read before its first epoch; None: not known.
        load_ms: How long that took.
        loaded_ms: When the first replica that did had read as much in this incarnation; None: none has, or it is unknown.
    """

    incarnation: int
    traces: dict[int, Trace] = {}
    ended: dict[int, int] = {}
    left_bytes: int = 0
    found: FoundEpochs | None = None
    epoch_bytes: int | None = None
    load_bytes: int | None = None
    load_ms: int | None = None
    loaded_ms: float | None = None


class ProfilerState(msgspec.Struct):
    """The traffic of each job; the one that was heard of least recently comes first."""

    jobs: dict[str, JobTraffic] = {}


class Profiler:
    """Turns the counts of bytes in ``NodeHeartbeat`` into ``EpochMeasured``."""

    name = "profiler"
    logic = 1
    topic = "heartbeats"
    state_type = ProfilerState

    def __init__(self, state: ProfilerState | None = None) -> None:
        self.state = state or ProfilerState()

    def restate(self) -> None:
        """See ``StreamDecider.restate``: the end of the next epoch says how many there were."""

    def step(self, received: Received[Any]) -> Sequence[Decision]:
        """The epochs that are over with a heartbeat. Work: O(1) in the number of jobs."""
        beat = received.event
        if not isinstance(beat, NodeHeartbeat) or not beat.takes_jobs:
            return ()
        return [Decision(beat.pool, event) for report in beat.replicas for event in self._new(beat.at_ms, report)]

    def _new(self, at_ms: int, report: ReplicaReport) -> Iterator[c.EpochMeasured]:
        job = self.state.jobs.get(report.job)
        runs = report.state is ReplicaState.RUNNING
        if job is None or report.incarnation > job.incarnation:
            if report.read_bytes is None or not runs:
                return
            job = _next_incarnation(job, report.incarnation)
        if report.incarnation < job.incarnation:
            return
        self._remember(report.job, job)
        over = _folded(job, report, at_ms, runs=runs)
        if over is None:
            return
        trace, pause = over
        found = job.found
        if found is None:
            event = _begun(report, job, trace, pause)
        elif found.replica == report.replica:
            event = _went_on(report, job, found, trace, pause)
        else:
            event = None
        if not runs:
            _end(job, report.replica)
        if event is not None:
            yield event

    def _remember(self, name: str, job: JobTraffic) -> None:
        jobs = self.state.jobs
        jobs.pop(name, None)
        jobs[name] = job
        if len(jobs) > JOBS_KEPT:
            del jobs[next(iter(jobs))]


def _next_incarnation(before: JobTraffic | None, incarnation: int) -> JobTraffic:
    if before is None:
        return JobTraffic(incarnation)
    return JobTraffic(incarnation, epoch_bytes=before.epoch_bytes, load_bytes=before.load_bytes, load_ms=before.load_ms)


def _folded(job: JobTraffic, report: ReplicaReport, at_ms: int, *, runs: bool) -> tuple[Trace, ReadingPause] | None:
    """The replica's trace, and the pause that is over with this report."""
    trace = job.traces.get(report.replica)
    if trace is None:
        if runs and report.read_bytes is not None:
            job.traces[report.replica] = begin(at_ms, report.read_bytes)
        return None
    before = (trace.at_ms, trace.read)
    over = observe(trace, at_ms, report.read_bytes)
    if job.loaded_ms is None and job.load_bytes is not None and before[1] <= job.load_bytes < trace.read:
        job.loaded_ms = trace.reached_ms(job.load_bytes, before)
    if not runs:
        over = close(trace) or over
        if over is None:
            _end(job, report.replica)
    return None if over is None else (trace, over)


def _end(job: JobTraffic, replica: int) -> None:
    """A replica has ended; what it read still counts for the epoch of those that go on, and not for later ones."""
    if (trace := job.traces.pop(replica, None)) is not None:
        job.ended[replica] = trace.read


def _begun(report: ReplicaReport, job: JobTraffic, trace: Trace, pause: ReadingPause) -> c.EpochMeasured | None:
    """The first end of an epoch that is recognised."""
    if (known := _as_before(job, pause)) is not None:
        if job.loaded_ms is not None:
            job.load_ms = max(0, round(job.loaded_ms - trace.began_ms))
        epoch_ms = pause.ended_ms - trace.began_ms - (job.load_ms or 0)
        job.found = FoundEpochs(report.replica, known, 1, pause.level, pause.ended_ms, pause.idle_ms, 1.0)
        return _measured(report, job, job.found, epoch_ms) if epoch_ms > 0 else None
    seen = rhythm(trace.pauses, trace.gap_ms, job.epoch_bytes)
    if seen is None:
        return None
    last, (_, began) = seen.ends[-1], seen.ends[0]
    epoch_ms = (last[1].ended_ms - began.ended_ms) / last[0]
    # An epoch takes as long as those that were seen: more that was read before the first of these was loaded.
    took_ms = began.ended_ms - trace.began_ms
    epochs = min((began.level + slack(seen.epoch_bytes)) / seen.epoch_bytes, took_ms / epoch_ms + _SHORTER)
    # What was read before the first of these may be no epoch: then it was the end of loading.
    first = max(1, int(epochs)) if began.level + slack(seen.epoch_bytes) >= seen.epoch_bytes else 0
    job.epoch_bytes = seen.epoch_bytes
    job.load_bytes = max(0, began.level - first * seen.epoch_bytes)
    job.load_ms = max(0, round(took_ms - first * epoch_ms))
    job.found = _found(report.replica, seen, first + last[0])
    return _measured(report, job, job.found, epoch_ms)


def _as_before(job: JobTraffic, pause: ReadingPause) -> int | None:
    """Bytes of an epoch, where a resumed job has just read what it loads, and its data set once."""
    if job.epoch_bytes is None or job.load_bytes is None:
        return None
    differs = abs(pause.level - job.load_bytes - job.epoch_bytes)
    return job.epoch_bytes if differs <= slack(job.epoch_bytes) else None


def _went_on(
    report: ReplicaReport, job: JobTraffic, found: FoundEpochs, trace: Trace, pause: ReadingPause
) -> c.EpochMeasured | None:
    more = is_end(pause.level - found.level, found.epoch_bytes)
    if more is not None and pause.idle_ms >= _SHORT * found.idle_ms:
        epoch_ms = (pause.ended_ms - found.ended_ms) / more
        found.epoch += more
        found.level, found.ended_ms = pause.level, pause.ended_ms
        return _measured(report, job, found, epoch_ms)
    if pause.level - found.level < LOST_AFTER * found.epoch_bytes:
        return None
    seen = rhythm(trace.pauses, trace.gap_ms)
    if seen is None:
        return None
    newer = [end for end in seen.ends if end[1].level > found.level]
    if not newer:
        return None
    (first, began), (last, ended) = seen.ends[0], seen.ends[-1]
    job.epoch_bytes, job.found = seen.epoch_bytes, _found(report.replica, seen, found.epoch + len(newer))
    return _measured(report, job, job.found, (ended.ended_ms - began.ended_ms) / (last - first))


def _found(replica: int, seen: Rhythm, epoch: int) -> FoundEpochs:
    newest = seen.ends[-1][1]
    return FoundEpochs(replica, seen.epoch_bytes, epoch, newest.level, newest.ended_ms, seen.idle_ms, seen.score)


def _measured(report: ReplicaReport, job: JobTraffic, found: FoundEpochs, epoch_ms: float) -> c.EpochMeasured:
    load = job.load_bytes or 0
    own = max(1, found.level - load)
    read = {replica: trace.read for replica, trace in job.traces.items()} | job.ended
    others = [level for replica, level in sorted(read.items()) if replica != found.replica]
    of_others = sum(round(found.epoch_bytes * max(0, level - load) / own) for level in others)
    read_bytes = found.level + sum(others) + job.left_bytes
    job.left_bytes += sum(job.ended.values())
    job.ended.clear()
    return c.EpochMeasured(
        job=report.job,
        incarnation=report.incarnation,
        epoch=found.epoch,
        epoch_ms=max(1, round(epoch_ms)),
        epoch_bytes=found.epoch_bytes + of_others,
        read_bytes=read_bytes,
        ended_ms=max(0, round(found.ended_ms)),
        confidence=round(min(1.0, found.score), 3),
        load_bytes=job.load_bytes,
        load_ms=job.load_ms,
    )
