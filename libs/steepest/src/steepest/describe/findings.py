"""Sentences for what is found about jobs that train, and for how trials stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from steepest.events import cluster as c

FOUND: Mapping[c.FindingKind, str] = {
    c.FindingKind.DIVERGED: "diverges",
    c.FindingKind.LOST: "has lost what it learned",
    c.FindingKind.STUCK: "learns nothing",
    c.FindingKind.PLATEAU: "is on a plateau",
    c.FindingKind.SPIKE: "has a spike",
    c.FindingKind.HUNG: "hangs",
    c.FindingKind.IDLE: "is idle",
    c.FindingKind.UNREAD: "cannot be read",
    c.FindingKind.SLOWED: "is slower than before",
    c.FindingKind.STRAGGLER: "waits for a replica",
    c.FindingKind.GPU: "has a GPU that failed",
}
"""What a job with a finding does, in words."""


def _found(event: c.FindingOpened) -> str:
    return f"{event.job} {FOUND[event.kind]}: {event.why}"


def _found_over(event: c.FindingEnded) -> str:
    return f"{event.job} {FOUND[event.kind]} no longer: {event.why}"


def _reaction(event: c.ReactionPlanned) -> str:
    what = "is stopped, and starts again" if event.restarts else "is stopped, and has failed"
    if event.suspends:
        what = "is saved and suspended, until it is resumed"
    if event.avoids:
        what += f", away from {event.avoids}"
    return f"{event.job} {what}: {event.reason}"


def _notified(event: c.TargetNotified) -> str:
    return f"{event.to} was notified that {event.job} {FOUND[event.kind]}{' no longer' if event.over else ''}"


def _rung(event: c.RungReached) -> str:
    worth = "it is not finite" if event.value is None else f"{event.value:.4g}"
    return f"{event.job} has reached rung {event.rung} ({event.at:,}): {worth}"


def _judged(event: c.TrialJudged) -> str:
    return f"{event.job} {'goes on' if event.goes_on else 'is saved and waits'}: {event.reason}"


SENTENCES: Mapping[type, Callable[[Any], str]] = {
    c.FindingOpened: _found,
    c.FindingEnded: _found_over,
    c.TargetNotified: _notified,
    c.ReactionPlanned: _reaction,
    c.RungReached: _rung,
    c.TrialJudged: _judged,
}
