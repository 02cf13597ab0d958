"""Folds what becomes of trials into a view: the rungs that they reach, and which of them go on from there."""

from __future__ import annotations

from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.events.requests import Hold
from steepest.view.folds.fold_jobs import once_let_go
from steepest.view.folds.handlers import Handlers
from steepest.view.projection import Projection
from steepest.view.state import Phase


def _reached(view: Projection, event: c.RungReached, _: Received[Any]) -> bool:
    """Remember it, also of a trial that is over: its last losses may be read after its end."""
    job = view.find(event.job)
    if job is None or event.incarnation > job.incarnation or event.rung in job.trial.values:
        return False
    job.trial = msgspec.structs.replace(job.trial, values={**job.trial.values, event.rung: event.value})
    return True


def _judged(view: Projection, event: c.TrialJudged, _: Received[Any]) -> bool:
    """Let a trial go on, or hold it, so that it is suspended. One that its user holds stays held in both cases."""
    job = view.find(event.job)
    if job is None or job.phase is Phase.ENDED or job.cancel or event.rung not in job.trial.values:
        return False
    if job.trial.passed >= event.rung or (not event.goes_on and job.hold is not Hold.NONE):
        return False
    passed = event.rung if event.goes_on else job.trial.passed
    job.trial = msgspec.structs.replace(job.trial, judged=event.reason, passed=passed)
    if not event.goes_on:
        job.hold = Hold.RUNG
    elif job.hold is Hold.RUNG and passed >= job.trial.rung:
        job.hold = once_let_go(job)
    view.jobs.update(job)
    view.jobs.queue.put_again(job)
    return True


HANDLERS: Handlers = {
    c.RungReached: _reached,
    c.TrialJudged: _judged,
}
