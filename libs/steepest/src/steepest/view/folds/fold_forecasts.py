"""Folds measured epochs, predictions and promises into a view.

A handler says with False that its event does not count where it stands: it is outdated, or its job is over.
"""

from __future__ import annotations

from typing import Any

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.view.folds.handlers import Handlers
from steepest.view.progress_state import DevicePromise, EpochsSeen, Forecast
from steepest.view.projection import Projection
from steepest.view.state import Job, Phase


def _epoch(view: Projection, event: c.EpochMeasured, received: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.phase is Phase.ENDED or job.incarnation != event.incarnation:
        return False
    seen = job.epochs_seen = job.epochs_seen or EpochsSeen()
    if event.epoch <= seen.epochs:
        return False
    more = event.epoch - seen.epochs
    seen.epoch_ms = (seen.epoch_ms * seen.epochs + event.epoch_ms * more) / event.epoch
    seen.epochs, seen.epoch_bytes = event.epoch, event.epoch_bytes
    is_recent = received.at_ms - 2 * event.epoch_ms <= event.ended_ms <= received.at_ms  # the node's clock may be wrong
    seen.ended_ms = event.ended_ms if is_recent else received.at_ms
    seen.load_ms = event.load_ms if seen.load_ms is None else seen.load_ms
    seen.load_bytes = event.load_bytes if seen.load_bytes is None else seen.load_bytes
    return True


def _predicted(view: Projection, event: c.RunTimePredicted, _: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.phase is Phase.ENDED or job.incarnation != event.incarnation:
        return False
    job.forecast = Forecast(event, view.counted_ms)
    view.jobs.queue.note_progress(job.name)
    return True


def _overhead(view: Projection, event: c.OverheadPredicted | c.OverheadMeasured, _: Received[Any]) -> bool:
    return view.find(event.job) is not None


def _promised(view: Projection, event: c.PromiseRevised, received: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.phase is Phase.ENDED:
        return False
    due_ms = None if event.due_in_ms is None else received.at_ms + event.due_in_ms
    job.promise = DevicePromise(
        first_due_ms=due_ms if job.promise is None else job.promise.first_due_ms,
        due_ms=due_ms,
        fair_end_ms=received.at_ms + event.fair_in_ms,
        said_ms=received.at_ms,
        tier=event.tier,
        ahead=event.ahead,
    )
    return True


def begin_incarnation(job: Job) -> None:
    """A new incarnation is about to start: the epochs of the one before are done."""
    seen = job.epochs_seen
    if seen is None:
        return
    job.epochs_seen = EpochsSeen(
        before=epochs_done(job, seen.ended_ms or 0), epoch_ms=seen.epoch_ms, epoch_bytes=seen.epoch_bytes
    )


def pause(job: Job, at_ms: int) -> None:
    """Record a suspension: the job's present epoch continues when the job is resumed."""
    if job.epochs_seen is not None:
        job.epochs_seen.paused_ms = at_ms


def epochs_done(job: Job, at_ms: int) -> float:
    """Epochs that a job has done at a record's time; the part of the one under way by the time since it began."""
    seen = job.epochs_seen
    if seen is None:
        return 0.0
    done = seen.before + seen.epochs
    if seen.ended_ms is None or not seen.epoch_ms:
        return done
    until_ms = at_ms if seen.paused_ms is None else seen.paused_ms
    return done + min(max(0, until_ms - seen.ended_ms) / seen.epoch_ms, 1.0)


HANDLERS: Handlers = {
    c.EpochMeasured: _epoch,
    c.RunTimePredicted: _predicted,
    c.OverheadPredicted: _overhead,
    c.OverheadMeasured: _overhead,
    c.PromiseRevised: _promised,
}
