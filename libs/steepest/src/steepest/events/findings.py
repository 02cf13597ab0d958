"""What is wrong with a job that trains, as far as its reports and its use of the machine show."""

from __future__ import annotations

import enum

import msgspec

from steepest.events.common import Count, Name, Text


class FindingKind(enum.StrEnum):
    """What may be found. ``docs/watching.md`` has the rule of each, and how often it is wrong."""

    DIVERGED = "diverged"  # its training loss is not finite, or above its start for long
    LOST = "lost"  # it learned, and lost most of that
    STUCK = "stuck"  # it never learned
    PLATEAU = "plateau"  # it learned, and has not for long
    SPIKE = "spike"  # its loss is far above its own scale
    HUNG = "hung"  # it makes no step for much longer than it ever took
    IDLE = "idle"  # it holds its place and uses nothing


class Reaction(enum.StrEnum):
    """What to do about a finding."""

    NOTIFY = "notify"
    RESTART = "restart"  # from its newest checkpoint, a few times
    FAIL = "fail"


class Reactions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to do about the findings that hold a place in vain; None: as the pool says.

    Attributes:
        diverged: A restart would go on from what has diverged, so that it is not one of them.
        idle: Likewise.
    """

    hung: Reaction | None = None
    diverged: Reaction | None = None
    idle: Reaction | None = None


class FindingOpened(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Something is wrong with a job, until ``FindingEnded`` or its next incarnation.

    Attributes:
        since: The step since when, for what is found in losses; None: no step is known.
        since_ms: The counted time since when, for what is found in use.
        why: A sentence for people, with the figures that they can check.
        figures: The rule's figures, by name: what was measured, and the bars that it passed.
    """

    job: Name
    incarnation: Count
    kind: FindingKind
    since: Count | None = None
    since_ms: Count | None = None
    why: Text
    figures: dict[str, float] = {}


class FindingEnded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """It is over: the job has recovered."""

    job: Name
    incarnation: Count
    kind: FindingKind
    why: Text


class ReactionPlanned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The job is stopped because of a finding, as its user or the pool has asked for.

    Attributes:
        restarts: Whether it waits for a place again afterwards; else it has failed.
    """

    job: Name
    incarnation: Count
    kind: FindingKind
    restarts: bool
    reason: Text
