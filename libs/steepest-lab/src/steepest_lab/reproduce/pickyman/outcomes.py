"""Predictions, overheads and waiting in a run's log. Pure: folds over the log."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from steepest.events import cluster as c
from steepest_lab.reproduce.kept_runs import Records


class PredictedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A job's run time: as predicted before it was placed, and as measured.

    Attributes:
        method: What the prediction was made from.
        predicted_ms: The middle estimate; None: nothing was known.
        measured_ms: From its first placement to its end.
    """

    job: str
    data_bytes: int
    batch_size: int
    workers: int
    epochs: int
    method: str
    profiles: int
    predicted_ms: int | None
    measured_ms: int

    @property
    def error(self) -> float | None:
        """Relative, of the measured time; positive: predicted too long."""
        return None if self.predicted_ms is None else (self.predicted_ms - self.measured_ms) / self.measured_ms


class MeasuredOverhead(msgspec.Struct, frozen=True, kw_only=True):
    """A suspension or a resumption, with its prediction when it began.

    Attributes:
        source: What preempted: time slices, or a policy of the comparison.
    """

    source: str
    run: str
    plan: str
    job: str
    kind: str
    readers: int
    predicted_ms: int | None
    measured_ms: int

    @property
    def error(self) -> float | None:
        """As of :class:`PredictedRun`."""
        if self.predicted_ms is None or not self.measured_ms:
            return None
        return (self.predicted_ms - self.measured_ms) / self.measured_ms


class WaitingOfRun(msgspec.Struct, frozen=True, kw_only=True):
    """All waiting of a run's jobs, that of suspended ones included, and its makespan: first submission to last end."""

    policy: str
    repetition: int
    jobs: int
    mean_waiting_s: float
    makespan_s: float
    suspensions: int
    steps_lost: int


def predictions(events: Records) -> list[PredictedRun]:
    """Every job that has finished, in the order of placement."""
    specs: dict[str, c.JobSpec] = {}
    newest: dict[str, c.RunTimePredicted] = {}
    before: dict[str, tuple[int, c.RunTimePredicted | None]] = {}
    found = []
    for one in events:
        match one.event:
            case c.JobSubmitted() as event:
                specs[event.job] = event.spec
            case c.RunTimePredicted() as event:
                newest[event.job] = event
            case c.JobPlaced() as event:
                before.setdefault(event.job, (one.at_ms, newest.get(event.job)))
            case c.JobEnded(outcome=c.Outcome.FINISHED) as event if event.job in before:
                began_ms, said = before[event.job]
                found.append(_predicted(event.job, specs[event.job], said, one.at_ms - began_ms))
    return found


def _predicted(job: str, spec: c.JobSpec, said: c.RunTimePredicted | None, took_ms: int) -> PredictedRun:
    total = None if said is None else said.total
    return PredictedRun(
        job=job,
        data_bytes=spec.data_bytes or 0,
        batch_size=spec.batch_size or 0,
        workers=spec.world,
        epochs=spec.epochs or 0,
        method=c.PredictionMethod.UNKNOWN if said is None else said.method,
        profiles=0 if said is None else said.profiles,
        predicted_ms=None if total is None else total.p50,
        measured_ms=max(took_ms, 1),
    )


def overheads(source: str, run: str, events: Records) -> list[MeasuredOverhead]:
    """Every suspension and resumption that was measured."""
    return [
        MeasuredOverhead(
            source=source,
            run=run,
            plan=event.plan,
            job=event.job,
            kind=event.kind,
            readers=event.readers,
            predicted_ms=event.predicted_ms,
            measured_ms=event.measured_ms,
        )
        for event in (one.event for one in events)
        if isinstance(event, c.OverheadMeasured)
    ]


def waiting(policy: str, repetition: int, events: Records, jobs: Collection[str]) -> WaitingOfRun:
    """How long these jobs of a run waited."""
    submitted: dict[str, int] = {}
    since: dict[str, int] = {}
    waited: dict[str, int] = {}
    ended: dict[str, int] = {}
    suspended: list[c.JobSuspended] = []
    for one in events:
        match one.event:
            case c.JobSubmitted(job=job) if job in jobs:
                submitted[job] = since[job] = one.at_ms
            case c.JobSuspended(job=job) as event if job in jobs:
                suspended.append(event)
                since[job] = one.at_ms
            case c.JobPlaced(job=job) if job in since:
                waited[job] = waited.get(job, 0) + one.at_ms - since.pop(job)
            case c.JobEnded(job=job) if job in jobs:
                ended[job] = one.at_ms
    return WaitingOfRun(
        policy=policy,
        repetition=repetition,
        jobs=len(submitted),
        mean_waiting_s=_mean(waited.values()) / 1000,
        makespan_s=(max(ended.values(), default=0) - min(submitted.values(), default=0)) / 1000,
        suspensions=len(suspended),
        steps_lost=sum(event.steps_lost for event in suspended),
    )


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0
