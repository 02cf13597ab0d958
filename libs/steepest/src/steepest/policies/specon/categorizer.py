"""SpeCon's categorizer (thesis, Algorithm 3): from the growth of each job's evaluation function to its category.

It owns which reports count, and what is said of an interval that has ended. It must never know nodes, placements, or
what a category is for: whether a job was already decided, and the guard of Algorithm 3 line 15, are the node-scorer's.

The reading, where the printed algorithm is in doubt:

* Reports count where they are of the split ``train`` and of the watched metric.
* State is kept across incarnations. The number only fences: once a newer incarnation is watched, what an older one
  still reports is ignored. The parameters of the newest ``JobWatched`` are in force from it on, also where it is of the
  incarnation that runs already: the open interval keeps its beginning and its reports, gets the new length, and is
  judged by the new α. One that repeats what is known changes nothing.
* A source's records carry its sequence. What is not beyond the highest seen of that source for the job is a repetition.
* A job without a record for a week is no longer watched; ``JobWatched`` is repeated daily while there are reports.
  The time is the median of the newest of those that were heard of, and a job's own says only whether it was, so neither a
  clock that is ahead nor one that is behind ends the watch of any job.
* Another metric begins another grid, and its job as a progressing one: what was measured before is of another unit.
* G₁ is a baseline; from G₂ on an interval moves the job (:mod:`steepest.policies.specon.category_machine`).
* An interval counts towards convergence where G is below α *and* below the G before (lines 5 and 17); where G bounced, the
  job stays in its category and asks for nothing.
* A converged job asks for its reallocation at every interval that counts towards convergence, because the node-scorer
  may not be able to grant it yet. With ``RequestTick.NEXT`` the first request comes with the interval after the one in
  which it converged, so with the fourth at the earliest: 120 s after the first report where itval is 30 s.

The variant ``specon-adaptive`` (``Threshold.FITTED``) compares with a threshold that is fitted to the job's own growth,
and is otherwise the same (:mod:`steepest.policies.specon.trend`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from steepest.events.cluster import (
    Category,
    CategoryChanged,
    FindingEnded,
    FindingOpened,
    GrowthMeasured,
    LogOpened,
    ReallocationRequested,
    RungReached,
)
from steepest.events.loss import JobUnwatched, JobWatched, LossDiverged, LossEvent, LossReported
from steepest.events.parameters import RequestTick, SpeConParameters, Threshold
from steepest.events.received import MAX_DIGITS, SEQUENCE, SOURCE, Received
from steepest.events.requests import Rungs
from steepest.policies import rising
from steepest.policies.decider import Decision
from steepest.policies.specon.category_machine import Comparison, compare, move
from steepest.policies.specon.growth import BACK_INTERVALS, LARGEST_VALUE, Intervals
from steepest.policies.specon.trend import Trend
from steepest.policies.sweep.climb import Climb
from steepest.policies.watch.loss_course import LossChange, LossWatch

Out = Sequence[Decision]
NOTHING: Out = ()


SILENT_MS = 7 * 86_400_000
"""Time without a record after which a job is no longer watched, by the times of other jobs' records."""

JOBS_KEPT = 20_000
"""Jobs of a partition that are watched; beyond, those go of which nothing was heard for longest."""

LOOK_EVERY = 16
"""Announcements after which silent jobs are looked for; where there are many jobs, a share of them."""

SOURCES_KEPT = 1_000
"""Sources of a job that are remembered: an incarnation has a few."""


class JobState(msgspec.Struct, kw_only=True, gc=False):
    """What is kept of a watched job.

    Attributes:
        metric: The evaluation function's name.
        incarnation: The newest watched.
        sequences: The highest sequence number seen of each source.
        intervals: None before the first report that counts.
        trend: Of its growth so far, where the threshold is fitted to it.
        course: What its losses show beyond growth; None before the first.
        rungs: Where it is compared with other trials, if anywhere; ``climb``: how far it has come on them.
        rises: Whether the metric is better when it is larger.
        restate: Whether to state its category at its next interval even if it does not change.
        renamed_from: Its category by another metric, of which the log has not heard yet that it counts no longer.
        watched_ms: When the newest ``JobWatched`` was written.
        looked_ms: ``heard_ms`` when silent jobs were looked for last.
        silent_from_ms: The partition's time when that was found to have changed.
    """

    pool: str
    metric: str
    incarnation: int
    parameters: SpeConParameters
    category: Category = Category.PROGRESSING
    sequences: dict[str, int] = {}
    intervals: Intervals | None = None
    trend: Trend | None = None
    course: LossWatch | None = None
    rungs: Rungs | None = None
    climb: Climb | None = None
    rises: bool = False
    restate: bool = False
    renamed_from: Category | None = None
    watched_ms: int = 0
    looked_ms: int = -1
    silent_from_ms: int = 0

    @property
    def heard_ms(self) -> int:
        """The newest time of its records that count."""
        return self.watched_ms if self.intervals is None else max(self.watched_ms, self.intervals.now_ms)


class Ignored(msgspec.Struct, kw_only=True, gc=False):
    """How many records were ignored, by why; records of another split or metric are not among them.

    Attributes:
        unknown: Of a job that is not watched.
        stale: Of an incarnation older than the newest watched.
        repeated: Not beyond what their source sent before.
        unnumbered: From a source whose sequence is no decimal integer, or has too many digits.
        oversized: Values of a magnitude above ``LARGEST_VALUE``.
    """

    unknown: int = 0
    stale: int = 0
    repeated: int = 0
    unnumbered: int = 0
    oversized: int = 0


class CategorizerState(msgspec.Struct, kw_only=True):
    """All that the categorizer remembers: its jobs by name.

    Attributes:
        watched: How many ``JobWatched`` came since silent jobs were looked for.
    """

    jobs: dict[str, JobState] = {}
    watched: int = 0
    ignored: Ignored = msgspec.field(default_factory=Ignored)


class Categorizer:
    """Algorithm 3 as a decider over one partition of ``loss``. Work per record does not grow with the jobs."""

    name = "categorizer"
    logic = 2
    topic = "loss"
    state_type = CategorizerState

    def __init__(self, state: CategorizerState | None = None) -> None:
        self.state = CategorizerState() if state is None else state

    def restate(self) -> None:
        """See ``StreamDecider.restate``: each job's category is said at its next interval."""
        for job in self.state.jobs.values():
            job.restate = True

    def step(self, received: Received[LossEvent | LogOpened]) -> Out:
        """What follows from ``received``: measured growth, a change of category, a request, in this order."""
        event = received.event
        if type(event) is LossReported and (job := self.state.jobs.get(event.job)) is not None:  # nearly every record
            if not self._is_new(job, received.headers):
                return NOTHING
            decided = self._count(job, event, received.at_ms)
            return decided if job.rungs is None else [*decided, *_climbed(job, event, event.value)]
        if isinstance(event, LogOpened):
            return NOTHING
        job = self.state.jobs.get(event.job)
        if job is None:
            self._begin(event, received)
        elif self._is_new(job, received.headers):
            if isinstance(event, JobWatched):
                self._watch(job, event, received.at_ms)
            elif isinstance(event, LossDiverged):
                return self._not_finite(job, event)
            elif isinstance(event, JobUnwatched):
                del self.state.jobs[event.job]
        return NOTHING

    def _begin(self, event: LossEvent, received: Received[Any]) -> None:
        if not isinstance(event, JobWatched):
            self.state.ignored.unknown += 1
            return
        job = JobState(
            pool=event.pool,
            metric=event.metric,
            incarnation=event.incarnation,
            parameters=event.parameters,
            watched_ms=received.at_ms,
            rungs=event.rungs,
            rises=rising.rises(event.metric),
        )
        if self._is_new(job, received.headers):
            self.state.jobs[event.job] = job
            self._forget_silent()

    def _is_new(self, job: JobState, headers: Mapping[str, str]) -> bool:
        """Whether the record is the first of its number from its source; a record without a source always is."""
        source = headers.get(SOURCE)
        if source is None:
            return True
        text = headers.get(SEQUENCE, "")
        if not text.isdecimal() or len(text) > MAX_DIGITS:
            self.state.ignored.unnumbered += 1
            return False
        number, sequences = int(text), job.sequences
        newest = sequences.get(source)
        if newest is None:
            if len(sequences) >= SOURCES_KEPT:
                del sequences[next(iter(sequences))]
        elif number <= newest:
            self.state.ignored.repeated += 1
            return False
        sequences[source] = number
        return True

    def _forget_silent(self) -> None:
        """Forget jobs whose ``JobUnwatched`` never came. Work: O(log n) in the number of jobs, spread over announcements."""
        self.state.watched += 1
        jobs = self.state.jobs
        if self.state.watched < max(LOOK_EVERY, len(jobs) // LOOK_EVERY):
            return
        heard = sorted((job for job in jobs.values() if job.heard_ms != job.looked_ms), key=lambda job: job.heard_ms)
        if len(heard) < LOOK_EVERY // 2:
            return  # too few to know the time by
        self.state.watched = 0
        now_ms = heard[len(heard) // 2].heard_ms
        for job in heard:
            job.looked_ms, job.silent_from_ms = job.heard_ms, now_ms
        longest = sorted(jobs, key=lambda name: jobs[name].silent_from_ms)
        surplus = len(jobs) - JOBS_KEPT
        for number, name in enumerate(longest):
            if number < surplus or now_ms - jobs[name].silent_from_ms > SILENT_MS:
                del jobs[name]

    def _watch(self, job: JobState, event: JobWatched, at_ms: int) -> None:
        if event.incarnation < job.incarnation:
            self.state.ignored.stale += 1
            return
        if job.intervals is not None and event.metric != job.metric:
            job.renamed_from = job.renamed_from or job.category
            job.intervals, job.trend, job.category = None, None, Category.PROGRESSING
            job.course, job.rises = None, rising.rises(event.metric)
            if job.climb is not None:
                job.climb.begin_again()
        elif job.intervals is not None:
            job.intervals.resize(job.parameters.interval_ms, event.parameters.interval_ms)
        if job.course is not None and event.incarnation > job.incarnation:
            job.course.begin_incarnation()
        job.pool = event.pool
        job.metric = event.metric
        job.incarnation = event.incarnation
        job.parameters = event.parameters
        job.rungs = event.rungs
        job.watched_ms = at_ms

    def _not_finite(self, job: JobState, event: LossDiverged) -> Out:
        if event.metric != job.metric or event.incarnation < job.incarnation:
            return NOTHING
        return [*_watched(job, event, math.nan, None), *_climbed(job, event, math.nan)]

    def _count(self, job: JobState, report: LossReported, at_ms: int) -> Out:
        if report.metric != job.metric or report.split != "train":
            return NOTHING
        if report.incarnation < job.incarnation:
            self.state.ignored.stale += 1
            return NOTHING
        value = report.value
        if not -LARGEST_VALUE <= value <= LARGEST_VALUE:
            self.state.ignored.oversized += 1
            return NOTHING
        intervals, judged = job.intervals, -value if job.rises else value
        if intervals is None:
            job.intervals = Intervals.begin(at_ms, value, job.parameters.interval_ms)
            return _watched(job, report, judged, report.total)
        decided = NOTHING
        if at_ms > intervals.end_ms:
            if intervals.count:
                decided = _judge(report.job, job, intervals)
            intervals.turn(at_ms, job.parameters.interval_ms)
        elif at_ms < intervals.now_ms and _falls_back(job, intervals, at_ms):
            intervals.begin_again(at_ms, job.parameters.interval_ms)
            job.trend = None
        intervals.add(at_ms, value)
        if job.course is not None and job.course.passes(judged):  # nearly every value
            return decided
        found = _watched(job, report, judged, report.total)
        return [*decided, *found] if found else decided


def _climbed(job: JobState, report: LossReported | LossDiverged, value: float) -> Out:
    """The rung that a trial reaches with a value of its evaluation function."""
    is_other = report.metric != job.metric or (isinstance(report, LossReported) and report.split != "train")
    if job.rungs is None or is_other or report.incarnation < job.incarnation or abs(value) > LARGEST_VALUE:
        return NOTHING
    if job.climb is None:
        job.climb = Climb(at=job.rungs.first)
    found = job.climb.add(report, value, job.rungs)
    if found is None:
        return NOTHING
    reached = RungReached(
        job=report.job, incarnation=report.incarnation, rung=found.rung, at=found.at, value=found.value
    )
    return [Decision(job.pool, reached)]


def _watched(job: JobState, report: LossReported | LossDiverged, value: float, total: int | None) -> Out:
    """What a value shows beyond growth; one that should rise is negated."""
    course = job.course
    if course is None:
        course = job.course = LossWatch()
    changes = course.add(float(course.count if report.step is None else report.step), value, total)
    return [Decision(job.pool, _finding(report, change)) for change in changes] if changes else NOTHING


def _finding(report: LossReported | LossDiverged, change: LossChange) -> FindingOpened | FindingEnded:
    job, incarnation = report.job, report.incarnation
    if change.is_over:
        return FindingEnded(job=job, incarnation=incarnation, kind=change.kind, why=change.why)
    since = max(0, int(change.since))
    return FindingOpened(
        job=job,
        incarnation=incarnation,
        kind=change.kind,
        since=since,
        why=change.why,
        figures={name: float(value) for name, value in change.figures.items()},
    )


def _falls_back(job: JobState, intervals: Intervals, at_ms: int) -> bool:
    """Whether a report is so much older than the one before it that only a clock that was set back explains it."""
    back_ms = BACK_INTERVALS * job.parameters.interval_ms
    return intervals.now_ms - at_ms > back_ms


def _judge(name: str, job: JobState, intervals: Intervals) -> Out:
    """Say what the open interval, which is over and has reports, means for its job."""
    parameters = job.parameters
    growth = intervals.growth(parameters.normalisation)
    per_second, threshold = intervals.per_second(growth), None
    before = job.category
    if intervals.baseline:
        comparison = Comparison.BASELINE
    elif parameters.threshold is Threshold.FITTED:
        job.trend = job.trend or Trend(intervals.now_ms)
        comparison, threshold = job.trend.compare(before, per_second, intervals.now_ms)
    else:
        comparison = compare(growth, parameters.alpha, intervals.growth_before)
    after = job.category = move(before, comparison)
    intervals.growth_before = growth
    measured = GrowthMeasured(
        job=name,
        interval=intervals.interval,
        total=intervals.total,
        count=intervals.count,
        largest=max(intervals.largest, intervals.settled),
        first_ms=intervals.first_ms,
        last_ms=intervals.now_ms,
        growth=growth,
        per_second=per_second,
        category=after,
        threshold=threshold,
        metric="" if job.renamed_from is None else job.metric,
    )
    decided = [Decision(job.pool, measured)]
    said, job.renamed_from = job.renamed_from or before, None
    if after is not said or job.restate:
        job.restate = False
        decided.append(Decision(job.pool, CategoryChanged(job=name, before=said, after=after, growth=growth)))
    judged_from = before if parameters.request_tick is RequestTick.NEXT else after
    if judged_from is Category.CONVERGED and comparison is Comparison.BELOW:
        request = ReallocationRequested(job=name, growth=growth, interval=intervals.interval)
        decided.append(Decision(job.pool, request))
    return decided
