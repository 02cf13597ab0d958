"""Folds what is wrong with jobs into a view: findings of the newest incarnation, and the stop that one of them causes."""

from __future__ import annotations

from typing import Any

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.events.requests import Hold
from steepest.view import lifecycle
from steepest.view.folds.handlers import Handlers
from steepest.view.places.node_rules import narrow
from steepest.view.projection import Projection
from steepest.view.state import Job, Phase

GONE_WRONG = (c.FindingKind.DIVERGED, c.FindingKind.LOST)
"""Findings after which a checkpoint from before them is worth more than a newer one."""

AVOIDS_MS = 600_000
"""Counted time for which a job stays away from a node that was the cause of a finding. Then it may wait there again."""


def _opened(view: Projection, event: c.FindingOpened, _: Received[Any]) -> bool:
    job = _of(view, event)
    if job is None or event.kind in job.findings:
        return False
    job.findings = {**job.findings, event.kind: event}
    if event.kind in GONE_WRONG:
        known = (one for one in (job.checkpoint, job.previous, job.good) if one is not None)
        job.good = next((one for one in known if not one.is_image and one.step < (event.since or 0)), None)
    return True


def _over(view: Projection, event: c.FindingEnded, _: Received[Any]) -> bool:
    job = _of(view, event)
    if job is None or event.kind not in job.findings:
        return False
    job.findings = {kind: found for kind, found in job.findings.items() if kind is not event.kind}
    if not any(kind in job.findings for kind in GONE_WRONG):
        job.good = None
    return True


def _notified(view: Projection, event: c.TargetNotified, _: Received[Any]) -> bool:
    """Remember who was sent a message, until one says that the finding has ended; also of a job that is over."""
    job = view.find(event.job)
    before = () if job is None else job.notified.get(event.kind, ())
    if job is None or (event.to in before) is not event.over:
        return False
    to = tuple(one for one in before if one != event.to) if event.over else (*before, event.to)
    job.notified = {kind: names for kind, names in {**job.notified, event.kind: to}.items() if names}
    return True


def _reaction(view: Projection, event: c.ReactionPlanned, received: Received[Any]) -> bool:
    """Stop the job, and judge how it goes on once its process is gone; or hold it, so that it is suspended."""
    job = _of(view, event)
    if job is None or not job.alive or job.cancel or job.reaction or event.kind not in job.findings:
        return False
    if event.suspends:
        job.hold, job.suspended_for = Hold.FINDING, job.incarnation
        view.jobs.update(job)
        return True
    job.reaction, job.restarts = event.reason, event.restarts
    job.restarted += event.restarts and event.kind is not c.FindingKind.GPU
    job.rewinds = event.kind is c.FindingKind.DIVERGED or (
        c.FindingKind.DIVERGED in job.findings and job.good is not None
    )
    if event.avoids is not None:
        job.avoids = (event.avoids, view.counted_ms + AVOIDS_MS)
        view.avoiding[job.name] = job
        narrow(job, view.nodes)
    lifecycle.cancel_if_free(view, job, received)
    view.jobs.update(job)
    return True


def _of(view: Projection, event: c.FindingOpened | c.FindingEnded | c.ReactionPlanned) -> Job | None:
    job = view.find(event.job)
    if job is None or job.phase is Phase.ENDED or job.incarnation != event.incarnation:
        return None
    return job


HANDLERS: Handlers = {
    c.FindingOpened: _opened,
    c.FindingEnded: _over,
    c.TargetNotified: _notified,
    c.ReactionPlanned: _reaction,
}
