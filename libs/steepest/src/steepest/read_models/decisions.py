"""Decisions and their outcomes, one entry an event: for the API and the live page.

It owns which events are entries. Pure: a function of the log.
"""

from __future__ import annotations

import msgspec

from steepest.describe import sentence
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.read_models.job_timeline import why_void
from steepest.read_models.run_timeline import SHOWN, is_too_late
from steepest.view.cluster_view import ClusterView

ENTRIES = (
    *SHOWN,
    c.ReallocationRequested,
    c.GoalReached,
    c.TargetNotified,
    c.LimitsApplied,
    c.JobPlaced,
    c.JobSubmitted,
    c.JobCancelRequested,
    c.NodeJoined,
    c.NodeGone,
    c.StepFailed,
)
"""The events that are entries: those of the terminal's view, and requests."""


IMPORTANT = (
    c.JobPlaced,
    c.MigrationFinished,
    c.MigrationFailed,
    c.TransitionFinished,
    c.JobSuspended,
    c.JobEnded,
    c.JobRejected,
    c.FindingOpened,
    c.NodeLost,
)
"""The entries of a short list: placements, moves, suspensions, ends, rejections, findings and lost nodes."""


class DecisionEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry.

    Attributes:
        offset: Its record in the pool's log.
        type: The type of its event.
        job: The job that it is about; empty where it is about a node.
        jobs: The jobs of a plan for a whole node.
        node: The node that it is about, or that a job goes to; empty where there is none.
        sentence: The event in words.
        rule: The algorithm and branch that decided; empty where nothing was decided.
        important: Whether it is one of :data:`IMPORTANT`, and had an effect.
        void: Why it had no effect; empty where it had one.
    """

    offset: int
    at_ms: int
    type: str
    sentence: str
    job: str = ""
    jobs: tuple[str, ...] = ()
    node: str = ""
    rule: str = ""
    important: bool = False
    void: str = ""
    refusal: str | None = None


def decision(view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> DecisionEntry | None:
    """The entry of a record that ``view`` has just folded; None where it is none."""
    event = received.event
    void = "" if accepted else why_void(view, received)
    rejected = isinstance(event, c.JobRejected) and not view.repeated
    if not isinstance(event, ENTRIES) or is_too_late(event) or not (accepted or void or rejected):
        return None
    because = getattr(event, "because", None)
    return DecisionEntry(
        offset=received.offset,
        at_ms=received.at_ms,
        type=type(event).__name__,
        sentence=sentence(event),
        job=getattr(event, "job", ""),
        jobs=tuple(limit.job for limit in getattr(event, "limits", ())),
        node=getattr(event, "target", "") or getattr(event, "node", ""),
        rule=because.rule if because else "",
        important=isinstance(event, IMPORTANT) and not void,
        void=void,
        refusal=view.refused if void else None,
    )
