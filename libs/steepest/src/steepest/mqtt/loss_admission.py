"""Which losses are appended to the log, and which event must precede them.

It owns the rules that need the pool's view. It must never know MQTT.

* A job that the pool does not know, or an incarnation that was never placed, is refused: it would fence the real one.
* A device that forwards a job's files announces itself what it watches (its events name their source). For a training script
  that reports by itself the bridge announces it, from the job's specification and the parameters in force, as the
  log-collector does: once, again when the judged metric or the parameters change, and when the job is over.
* What arrives after the job's end is appended unchanged, and decides nothing.
"""

from __future__ import annotations

import math

from steepest.collector.feed import WATCH_AGAIN_S
from steepest.collector.metric_selection import MetricSelection
from steepest.events.loss import JobUnwatched, JobWatched, LossDiverged, LossReported
from steepest.mqtt.payload import DeviceMessage, RefusedMessageError
from steepest.training_logs.records import LossRecord, Split
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Phase


class LossAdmission:
    """The rules, and which jobs the bridge itself has announced.

    Attributes:
        watched: The incarnation of each announced job.
    """

    def __init__(self, pool: str, watched: dict[str, int]) -> None:
        self.watched = watched
        self._pool = pool
        self._judged: dict[str, MetricSelection] = {}
        self._announced: dict[str, tuple[JobWatched, int]] = {}

    def admit(self, view: ClusterView, message: DeviceMessage) -> JobWatched | None:
        """The event that must be appended before a message on ``loss``, if any.

        Raises:
            RefusedMessageError: The message is not appended; the code is ``job``.
        """
        event = message.event
        job = view.jobs.get(message.key)
        if job is None:
            raise RefusedMessageError(f"`$.event.job`: pool {self._pool} has no job {message.key}", code="job")
        if isinstance(event, JobUnwatched):
            if job.phase is not Phase.ENDED:
                raise RefusedMessageError(f"`$.event.job`: {job.name} is not over", code="job")
            return None
        incarnation = event.incarnation  # type: ignore[union-attr]  # heartbeats do not come here
        if incarnation > job.incarnation:
            raise RefusedMessageError(
                f"`$.event.incarnation` is {incarnation}; the newest of {job.name} is {job.incarnation}", code="job"
            )
        if not isinstance(event, LossReported | LossDiverged) or message.envelope.source is not None:
            return None
        if job.phase is Phase.ENDED or incarnation < job.incarnation:
            return None
        return self._announce(view, job, event)

    def unwatch(self, job: str) -> JobUnwatched | None:
        """The event that must be appended when a job has ended, if it was announced."""
        self._judged.pop(job, None)
        self._announced.pop(job, None)
        return JobUnwatched(job=job) if self.watched.pop(job, None) is not None else None

    def ended(self, view: ClusterView) -> list[str]:
        """The announced jobs that have ended, or that the pool has forgotten."""
        found = {name: view.jobs.get(name) for name in self.watched}
        return [name for name, job in found.items() if job is None or job.phase is Phase.ENDED]

    def _announce(self, view: ClusterView, job: Job, event: LossReported | LossDiverged) -> JobWatched | None:
        if self.watched.get(job.name) != job.incarnation:
            self._judged.pop(job.name, None)
        judged = self._judged.setdefault(job.name, MetricSelection(job.spec.metric))
        judged.take(_as_record(event))
        watched = JobWatched(
            job=job.name,
            pool=self._pool,
            incarnation=job.incarnation,
            metric=judged.name,
            parameters=view.parameters.specon,
            rungs=job.spec.rungs if judged.is_wanted(judged.name) else None,
        )
        before, counted_ms = self._announced.get(job.name, (None, 0))
        if watched == before and view.counted_ms - counted_ms < 1000 * WATCH_AGAIN_S:
            return None
        self._announced[job.name] = (watched, view.counted_ms)
        self.watched[job.name] = job.incarnation
        return watched


def _as_record(event: LossReported | LossDiverged) -> LossRecord:
    """The parts of a report by which the judged metric is chosen: its metric and its split."""
    split: Split = "eval" if isinstance(event, LossReported) and event.split == "eval" else "train"
    return LossRecord(
        line=1,
        position=0,
        index=0,
        step=event.step,
        step_counted=False,
        epoch=None,
        metric=event.metric,
        value=event.value if isinstance(event, LossReported) else math.nan,
        split=split,
        format="mqtt",
    )
