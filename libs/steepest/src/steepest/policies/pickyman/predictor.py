"""The predictor: says how long jobs run and what their suspensions and resumptions take, and learns from what they took.

A prediction is written when a job is submitted, so that the log has it before the job is placed; and again when an
epoch of the job was seen, when it is suspended, and when the profiles of its model have become more while it waits. It is
not repeated where it would say the same within ``SAME``.

A suspension or resumption is predicted when its first step begins, and measured when it is over: a suspension at the end of
the last process, a resumption when the new incarnation begins its first step. Nodes report after that step: when it began
follows from what the incarnation has read, else from its pace (:mod:`steepest.policies.pickyman.under_way`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.policies.decider import EVERY, SWITCHES
from steepest.policies.pickyman.overheads import Overheads
from steepest.policies.pickyman.profiles import ProfileDatabase, learn_from
from steepest.policies.pickyman.run_time import predict
from steepest.policies.pickyman.running import remaining_ms
from steepest.policies.pickyman.under_way import UnderWay, mean_readers
from steepest.policies.unread import AwaitsDecisions
from steepest.view.cluster_view import ClusterView
from steepest.view.progress import checkpoint_step, time_left
from steepest.view.state import Job, Phase, PlanKind

SAME = 0.01
"""Relative change of a remaining time below which it is not written again."""

LEAST_CHANGE_MS = 1_000
"""Likewise in milliseconds: the pool's clock has ticks."""


STARTS_FOR_MS = 60_000
"""How long a job counts as starting at most, if nothing says that it trains."""

STARTS_KEPT = 64
"""Starts that are over and are remembered: others may have begun during them."""


class PredictorState(AwaitsDecisions):
    """All that the predictor remembers; empty where it is off.

    Attributes:
        on: Whether jobs that were there before are predicted already.
        profiles: The profile database.
        overheads: The calibration of suspensions and resumptions.
        under_way: What has begun, by job.
        starting: Jobs that are starting, and since when: they read from the storage at the same time.
        started: When the newest starts that are over began and ended, the oldest first.
        waiting: The models of waiting jobs, and the jobs.
        again: Jobs whose prediction may have to be written again, since the log has another one in its place.
    """

    on: bool = False
    profiles: ProfileDatabase = msgspec.field(default_factory=ProfileDatabase)
    overheads: Overheads = msgspec.field(default_factory=Overheads)
    under_way: dict[str, UnderWay] = msgspec.field(default_factory=dict)
    starting: dict[str, int] = msgspec.field(default_factory=dict)
    started: list[tuple[int, int]] = msgspec.field(default_factory=list)
    waiting: dict[str, dict[str, None]] = msgspec.field(default_factory=dict)
    again: dict[str, None] = msgspec.field(default_factory=dict)


class Predictor:
    """Answers submissions and epochs with ``RunTimePredicted``, and the steps of suspensions with what they take."""

    name = "predictor"
    logic = 1
    state_type = PredictorState

    def __init__(self, state: PredictorState | None = None) -> None:
        self.reads = EVERY
        self.state = state or PredictorState()

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: the job is predicted again at the next record."""
        if isinstance(event, c.RunTimePredicted):
            self.state.again[event.job] = None

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """What follows from a record. Work: O(1), and O(waiting jobs of a model) for a new profile of it."""
        is_on = view.parameters.pickyman.on
        self.reads = EVERY if is_on else SWITCHES
        if not is_on:
            if self.state.on:
                self.state = PredictorState(unread=self.state.unread)
            return ()
        return tuple(self._follow(view, received))

    def _follow(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Iterator[c.ClusterEvent]:
        state, event, at_ms = self.state, received.event, received.at_ms
        state.overheads.observe(view, event, at_ms)
        if not state.on:
            state.on = True
            yield from self._predict_all(view, [job for job in view.jobs if job.phase is not Phase.ENDED], at_ms)
        if state.again:
            names, state.again = state.again, {}
            jobs = [view.jobs[name] for name in names if name in view.jobs and view.jobs[name].phase is not Phase.ENDED]
            # Not where the log says the same: of two predictors, each would answer the other's predictions without end.
            yield from self._predict_all(view, jobs, at_ms)
        match event:
            case c.JobSubmitted() if (job := view.touched) is not None and job.forecast is None:
                yield from self._predict_all(view, [job], at_ms)
            case c.EpochMeasured() if (job := view.jobs.get(event.job)) is not None:
                yield from self._epoch(view, job, at_ms)
            case c.StepBegun() if (job := view.jobs.get(event.job)) is not None:
                yield from self._begin(view, job, event, at_ms)
            case c.JobSuspended() if (job := view.jobs.get(event.job)) is not None:
                yield from self._suspended(job, at_ms)
                yield from self._predict_all(view, [job], at_ms, always=True)
            case c.NodeUsage():
                for progress in event.progress:
                    yield from self._progressed(view, progress, at_ms)
                    yield from self._first_pace(view, progress.job, at_ms)
            case c.PlanAbandoned() | c.TransitionFailed() | c.StepFailed():
                self._stop_watching(event.job, at_ms)
            case c.JobEnded() | c.JobRejected() if (job := view.touched) is not None and view.jobs.is_over(job.name):
                self._stop_watching(job.name, at_ms)
                self._keep(job)
        enough = view.parameters.pickyman.profiles
        if (model := learn_from(state.profiles, view, event, at_ms, enough)) is not None:
            yield from self._predict_waiting(view, model, at_ms)

    # --- run times ---------------------------------------------------------------------------------------------------

    def _predict_all(
        self, view: ClusterView, jobs: Sequence[Job], at_ms: int, *, always: bool = False
    ) -> Iterator[c.RunTimePredicted]:
        for job in jobs:
            self._keep(job)
            predicted = predict(job, self.state.profiles, view.parameters.pickyman.profiles, at_ms)
            if always or _says_more(job, predicted, view.counted_ms):
                yield predicted

    def _keep(self, job: Job) -> None:
        """Remember whether it waits, by its model: a new profile says more of it."""
        jobs = self.state.waiting.setdefault(job.spec.model, {})
        if job.is_queued and job.spec.model:
            jobs[job.name] = None
        else:
            jobs.pop(job.name, None)
        if not jobs:
            del self.state.waiting[job.spec.model]

    def _epoch(self, view: ClusterView, job: Job, at_ms: int) -> Iterator[c.ClusterEvent]:
        state = self.state
        yield from self._predict_all(view, [job], at_ms)
        running = state.under_way.get(job.name)
        if running is not None and running.kind is c.Overhead.RESUMPTION and running.incarnation == job.incarnation:
            seen = job.epochs_seen
            if seen is not None and seen.load_ms is not None:
                yield from self._measured(job, seen.load_ms)
        self._started(job.name, at_ms)

    def _first_pace(self, view: ClusterView, name: str, at_ms: int) -> Iterator[c.RunTimePredicted]:
        """A job of which nothing was known has a pace: its announced totals say how much is left."""
        job = view.jobs.get(name)
        if job is None or job.forecast is None or time_left(job) is None:
            return
        if job.forecast.predicted.method is c.PredictionMethod.UNKNOWN:
            yield from self._predict_all(view, [job], at_ms)

    def _predict_waiting(self, view: ClusterView, model: str, at_ms: int) -> Iterator[c.RunTimePredicted]:
        jobs = [view.jobs[name] for name in self.state.waiting.get(model, ()) if name in view.jobs]
        yield from self._predict_all(view, jobs, at_ms)

    # --- overheads ---------------------------------------------------------------------------------------------------

    def _begin(self, view: ClusterView, job: Job, event: c.StepBegun, at_ms: int) -> Iterator[c.ClusterEvent]:
        state, plan = self.state, view.plan_of(job)
        if plan is None or (event.attempt > 1 and job.name in state.under_way):
            return
        if plan.kind is PlanKind.SUSPEND and event.step in {c.Step.CHECKPOINT, c.Step.STOP}:
            running = state.under_way.get(job.name)
            if running is not None and running.plan == plan.id:
                return
            left = state.overheads.epoch_left_ms(job, at_ms)
            known = state.overheads.knows_suspension(job, left)
            yield self._predict_overhead(
                job,
                UnderWay(
                    plan=plan.id,
                    kind=c.Overhead.SUSPENSION,
                    incarnation=job.incarnation,
                    began_ms=at_ms,
                    predicted_ms=state.overheads.suspension_ms(job, at_ms) if known else None,
                    epoch_left_ms=left,
                    makes_room=bool(plan.room_for),
                ),
                "how much of its epoch is left is unknown" if left is None else "its epoch ends first",
            )
        elif plan.kind is PlanKind.PLACE and event.step is c.Step.START:
            state.starting[job.name] = at_ms
            if not plan.resumes:
                return
            storage = view.parameters.pickyman.storage_bytes_s
            known = state.overheads.knows_resumption(job)
            readers = self._will_start_beside(job.name, at_ms, state.overheads.resumption_ms(job, 1, storage))
            yield self._predict_overhead(
                job,
                UnderWay(
                    plan=plan.id,
                    kind=c.Overhead.RESUMPTION,
                    incarnation=event.incarnation,
                    began_ms=at_ms,
                    predicted_ms=state.overheads.resumption_ms(job, readers, storage) if known else None,
                    readers=readers,
                    step=checkpoint_step(job),
                ),
                "it reads program, model and data from the storage",
            )

    def _will_start_beside(self, job: str, at_ms: int, for_ms: int) -> int:
        """How many jobs are likely to start in a span of time from now on, on average, this one included."""
        spans = [
            (since_ms, max(since_ms + for_ms, at_ms))
            for name, since_ms in self.state.starting.items()
            if name != job and at_ms - since_ms < STARTS_FOR_MS
        ]
        spans += [
            (one.began_ms + one.predicted_ms, at_ms + for_ms)
            for one in self.state.under_way.values()
            if one.makes_room and one.predicted_ms is not None
        ]
        return mean_readers(spans, at_ms, at_ms + for_ms)

    def _started_beside(self, job: str, from_ms: int, until_ms: int) -> int:
        """How many jobs were starting in a span of time, on average, this one included."""
        spans = [
            *self.state.started,
            *((since_ms, until_ms) for name, since_ms in self.state.starting.items() if name != job),
        ]
        return mean_readers(spans, from_ms, until_ms)

    def _predict_overhead(self, job: Job, running: UnderWay, because: str) -> c.OverheadPredicted:
        self.state.under_way[job.name] = running
        return c.OverheadPredicted(
            plan=running.plan,
            job=job.name,
            incarnation=running.incarnation,
            kind=running.kind,
            predicted_ms=running.predicted_ms,
            readers=running.readers,
            because=because,
        )

    def _suspended(self, job: Job, at_ms: int) -> Iterator[c.OverheadMeasured]:
        running = self.state.under_way.get(job.name)
        if running is not None and running.kind is c.Overhead.SUSPENSION:
            yield from self._measured(job, max(at_ms - running.began_ms, 0))

    def _progressed(self, view: ClusterView, found: c.ReplicaProgress, at_ms: int) -> Iterator[c.ClusterEvent]:
        """A starting job trains, if it has done a step."""
        job = view.jobs.get(found.job)
        if found.job not in self.state.starting or job is None or found.replica != 0:
            return
        if found.incarnation != job.incarnation or not job.alive:
            return
        running = self.state.under_way.get(found.job)
        if running is None:
            if found.step is not None:
                self._stop_watching(found.job, at_ms)
        elif running.kind is c.Overhead.RESUMPTION:
            trained_ms = running.trained_from(found.step, at_ms, self.state.overheads.readings.loading(job))
            if trained_ms is not None:
                yield from self._measured(job, max(trained_ms - running.began_ms, 0))

    def _measured(self, job: Job, took_ms: int) -> Iterator[c.OverheadMeasured]:
        running, readers = self.state.under_way[job.name], 1
        ended_ms = running.began_ms + took_ms
        if running.kind is c.Overhead.SUSPENSION:
            self.state.overheads.learn_suspension(job.spec.model, running.epoch_left_ms, took_ms)
        else:
            readers = self._started_beside(job.name, running.began_ms, ended_ms)
            self.state.overheads.learn_resumption(job.spec.model, readers, took_ms)
            self.state.overheads.trains_again(job.name, running.incarnation, ended_ms)
        self._stop_watching(job.name, ended_ms)
        yield c.OverheadMeasured(
            plan=running.plan,
            job=job.name,
            incarnation=running.incarnation,
            kind=running.kind,
            measured_ms=took_ms,
            predicted_ms=running.predicted_ms,
            readers=readers,
        )

    def _stop_watching(self, job: str, at_ms: int) -> None:
        self.state.under_way.pop(job, None)
        self._started(job, at_ms)

    def _started(self, job: str, at_ms: int) -> None:
        since_ms = self.state.starting.pop(job, None)
        if since_ms is not None:
            self.state.started.append((since_ms, at_ms))
            del self.state.started[:-STARTS_KEPT]


def _says_more(job: Job, now: c.RunTimePredicted, counted_ms: int) -> bool:
    """Whether a prediction says more than that time has gone on since the one before."""
    if job.forecast is None:
        return True
    before, left = job.forecast.predicted, remaining_ms(job, counted_ms)
    if before.incarnation != now.incarnation or before.method is not now.method:
        return True
    if left is None or now.remaining is None:
        return (left is None) is not (now.remaining is None)
    return abs(left - now.remaining.p50) > max(SAME * left, LEAST_CHANGE_MS)
