"""Checkers of suspensions: what protects a job from them, that it resumes or ends, and that promised room is waited for."""

from __future__ import annotations

import msgspec

from steepest.events import cluster as c
from steepest.events.parameters import PreemptionLimits
from steepest.events.received import Received
from steepest.invariants.checkers.step_rules import ObservedPlan
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import Checker


class SuspendedJob(msgspec.Struct):
    """A job as suspensions see it.

    Attributes:
        placed_counted_ms: When its newest incarnation was placed.
        suspensions: How often it was suspended.
        made_room_for: The jobs that it was suspended for.
        incarnation: The one that was suspended last, or whose start began last.
        since: Offset of the record that suspended it; None while it is not suspended.
        step: The step that it must resume from at least.
    """

    placed_counted_ms: int = 0
    suspensions: int = 0
    made_room_for: dict[str, None] = {}
    incarnation: int = 0
    since: int | None = None
    step: int = 0


class BegunSuspension(msgspec.Struct):
    """A suspension whose first step begins; its time and parameters are those at its plan."""

    plan: c.TransitionPlanned
    job: SuspendedJob
    counted_ms: int
    limits: PreemptionLimits


class Suspensions(Checker):
    """Folds suspensions for the checkers below; it checks nothing itself."""

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._counted_ms = 0
        self._limits = PreemptionLimits()
        self._planned: dict[str, tuple[int, PreemptionLimits]] = {}
        self._priorities: dict[str, int] = {}
        self._held: dict[str, c.Hold] = {}
        self._rungs: dict[str, int] = {}
        self._jobs: dict[str, SuspendedJob] = {}
        self._resumed = 0

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event, offset = received.event, received.offset
        counts = self._folds.counts
        match event:
            case c.Tick():
                self._counted_ms = max(self._counted_ms, event.counted_ms)
            case c.PoolConfigured():
                self._limits = event.parameters.preemption
            case c.JobSubmitted():
                self._priorities.setdefault(event.job, event.spec.priority)
            case c.JobChangeRequested() if counts:
                self._change(event)
            case c.RungReached() | c.TrialJudged() if counts:
                self._judge(event)
            case c.TransitionPlanned(kind=c.Transition.SUSPEND) if (
                event.job not in self._held
            ):  # users and rungs may at any time
                self._planned.setdefault(event.plan, (self._counted_ms, self._limits))
            case c.StepBegun(attempt=1) if counts and event.plan in self._planned:
                self._begin(self._folds.steps.plans[event.plan], offset)
            case c.StepBegun(step=c.Step.START) if counts:
                self._of(event.job).incarnation = event.incarnation
            case c.JobSuspended() if counts:
                self._suspend(event, offset)
            case c.JobPlaced() if counts:
                self._place(event, offset)
            case c.JobEnded():
                self._jobs.pop(event.job, None)
                self._priorities.pop(event.job, None)
                self._held.pop(event.job, None)
                self._rungs.pop(event.job, None)

    def _change(self, event: c.JobChangeRequested) -> None:
        if event.priority is not None:
            self._priorities[event.job] = event.priority
        if event.held:
            self._held[event.job] = c.Hold.USER
        elif event.held is not None:
            self._held.pop(event.job, None)

    def _judge(self, event: c.RungReached | c.TrialJudged) -> None:
        if isinstance(event, c.RungReached):
            self._rungs[event.job] = max(event.rung, self._rungs.get(event.job, 0))
        elif not event.goes_on:
            self._held[event.job] = c.Hold.RUNG
        elif self._held.get(event.job) is c.Hold.RUNG and event.rung >= self._rungs[event.job]:
            del self._held[event.job]

    def _of(self, job: str) -> SuspendedJob:
        return self._jobs.setdefault(job, SuspendedJob())

    def _begin(self, plan: ObservedPlan, offset: int) -> None:
        planned, job = plan.planned, self._of(plan.job)
        assert isinstance(planned, c.TransitionPlanned)  # noqa: S101 - only these are remembered
        counted_ms, limits = self._planned.pop(plan.plan)
        if why := self.why_not(BegunSuspension(planned, job, counted_ms, limits)):
            self.breach(f"plan {plan.plan} suspends job {plan.job}: {why}", plan.made, offset)

    def _suspend(self, event: c.JobSuspended, offset: int) -> None:
        job, plan = self._of(event.job), self._folds.steps.plans[event.plan]
        job.suspensions += 1
        if isinstance(plan.planned, c.TransitionPlanned):
            job.incarnation = plan.planned.incarnation
            if plan.planned.room_for:
                job.made_room_for[plan.planned.room_for] = None
        job.since, job.step = offset, event.step

    def _place(self, event: c.JobPlaced, offset: int) -> None:
        job = self._of(event.job)
        job.placed_counted_ms = self._counted_ms
        if job.since is not None:
            self._resumed += 1
            self.resume(event, job, offset)
            job.since = None

    def why_not(self, begun: BegunSuspension) -> str | None:
        """Why a job must not be suspended; None or empty if it may be."""

    def resume(self, event: c.JobPlaced, job: SuspendedJob, offset: int) -> None:
        """A suspended job is placed again."""


class SuspendedResume(Suspensions):
    """A suspended job resumes from where it was suspended, or ends.

    Between its ``JobSuspended`` that counts and its next ``JobPlaced`` that counts, no process of it starts; that start
    restores a checkpoint of the step at which it was suspended, or a later one. The summary counts the suspensions, how
    many of these jobs were placed again, and which wait when the log ends.
    """

    name = "suspended-resume"

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        super().feed(received)
        event = received.event
        if isinstance(event, c.ReplicaStarted) and (job := self._jobs.get(event.job)) is not None:
            if job.since is not None and event.incarnation <= job.incarnation:
                return  # the report of its start comes late, also of a start that failed and was taken back
            if job.since is not None and not self._folds.steps.in_flight(event.job):
                self.breach(f"job {event.job} is suspended, and runs on {event.node}", job.since, received.offset)

    def resume(self, event: c.JobPlaced, job: SuspendedJob, offset: int) -> None:
        """See ``Suspensions.resume``."""
        restored = event.restore.step if event.restore else 0
        if restored < job.step and not (event.restore is not None and event.restore.is_image):
            message = f"job {event.job} was suspended at step {job.step} and resumes from {restored}"
            self.breach(message, *([] if job.since is None else [job.since]), offset)

    def summary(self) -> str:
        """The number of suspensions and resumptions, and the jobs that are suspended."""
        waiting = [name for name, job in self._jobs.items() if job.since is not None]
        names = f" ({', '.join(waiting[:5])})" if waiting else ""
        return f"resumed: {self._resumed}, suspended: {len(waiting)}{names}"


class MinRunTime(Suspensions):
    """No job is suspended before it has run for ``min_run_ms`` of counted time since it was placed last.

    The time of a suspension is that of its plan, and the parameters are those in force there. A plan is checked where
    its first step begins. Users may suspend a job at any time.
    """

    name = "min-run-time"

    def why_not(self, begun: BegunSuspension) -> str | None:
        """See ``Suspensions.why_not``."""
        ran_ms, least_ms = begun.counted_ms - begun.job.placed_counted_ms, begun.limits.min_run_ms
        return f"it has run for {ran_ms} ms of {least_ms}" if ran_ms < least_ms else None


class MostSuspensions(Suspensions):
    """No job is suspended more often than ``max_suspensions`` allows.

    The parameters are those in force at the plan. A plan is checked where its first step begins.
    """

    name = "max-suspensions"

    def why_not(self, begun: BegunSuspension) -> str | None:
        """See ``Suspensions.why_not``."""
        times = begun.job.suspensions
        return f"it was suspended {times} times" if times >= begun.limits.max_suspensions else None


class NoPingPong(Suspensions):
    """No job makes room for the same less urgent job twice.

    A plan that suspends a job names the job that room is made for. If that one has a lower priority, and the job was
    suspended for it before, the suspension must not begin.
    """

    name = "no-ping-pong"

    def why_not(self, begun: BegunSuspension) -> str | None:
        """See ``Suspensions.why_not``."""
        other = begun.plan.room_for
        if other is None or other not in begun.job.made_room_for:
            return None
        lower = self._priorities.get(other, 0) < self._priorities.get(begun.plan.job, 0)
        return f"for job {other}, which is less urgent, a second time" if lower else None


class PromisedRoom(Checker):
    """A plan that waits for room begins only when all plans that make it are over.

    The plans named in ``after`` must precede it in the log, and each must be over where its first step begins that
    counts. That what they leave is still free then is a part of the invariant ``capacity``.
    """

    name = "promised-room"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._kept = 0

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        counts = self._folds.counts
        event = received.event
        if not isinstance(event, c.StepBegun) or not counts or event.attempt > 1:
            return
        plan = self._folds.steps.plans[event.plan]
        if not isinstance(plan.planned, c.PlacementPlanned | c.TransitionPlanned):
            return
        self._kept += bool(plan.planned.after)
        for name in plan.planned.after:
            awaited = self._folds.steps.plans.get(name)
            if awaited is None:
                self.breach(
                    f"plan {plan.plan} waits for plan {name}, which is not in the log", plan.made, received.offset
                )
            elif awaited.over is None:
                self.breach(f"plan {plan.plan} begins before plan {name} is over", awaited.made, received.offset)

    def summary(self) -> str:
        """How many plans began in room that others made."""
        return f"plans that waited for room: {self._kept}"
