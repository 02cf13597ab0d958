"""The interface of a checker and its verdict: holds, broken, or unknown. It must never know a specific event."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from steepest.events.cluster import ClusterEvent
from steepest.events.received import Received
from steepest.invariants.folds import LogFolds

SHOWN = 5
"""Breaches that a message describes; the evidence has the offsets of all."""


class Status(enum.StrEnum):
    """The three verdicts. An error in a checker is ``UNKNOWN``: it proves nothing."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A checker's verdict on a log.

    Attributes:
        checker: The checker's name.
        evidence: Offsets of the records that show a breach, ascending; empty unless broken.
        message: The findings, for people.
    """

    checker: str
    status: Status
    evidence: tuple[int, ...] = ()
    message: str = ""


class Checker:
    """An invariant of a pool's log, checked by folding it. Its docstring is the model: what the log proves, and how.

    Checkers get each record once, in order, and no repeated deliveries (see :class:`~steepest.invariants.audit.Audit`). They
    fold the raw events and never use ``ClusterView``, whose errors they are meant to find; where they know less than the
    view, they are lenient, so that a reported breach is always a real one.
    """

    name: ClassVar[str]

    def __init__(self, folds: LogFolds) -> None:
        """``folds`` of the same partition are fed with each record between :meth:`before` and :meth:`feed`."""
        self._folds = folds
        self._breaches: list[str] = []
        self._evidence: dict[int, None] = {}

    def before(self, received: Received[ClusterEvent]) -> None:
        """Look at the next record where the shared folds do not have it yet."""

    def feed(self, received: Received[ClusterEvent]) -> None:
        """Process the next record, which the shared folds have."""

    def breach(self, message: str, *offsets: int) -> None:
        """Record a breach, with the offsets of the records that show it."""
        self._breaches.append(message)
        self._evidence.update(dict.fromkeys(offsets))

    @property
    def breaches(self) -> Sequence[str]:
        """All breaches so far, in words; the message of the verdict has the first ones."""
        return self._breaches

    def verdict(self) -> Verdict:
        """The verdict on the records so far."""
        if not self._breaches:
            return Verdict(checker=self.name, status=Status.HOLDS, message=self.summary())
        more = len(self._breaches) - SHOWN
        shown = self._breaches[:SHOWN] + ([f"and {more} more"] if more > 0 else [])
        evidence = tuple(sorted(self._evidence))
        return Verdict(checker=self.name, status=Status.BROKEN, evidence=evidence, message="; ".join(shown))

    def summary(self) -> str:
        """Figures for the verdict if the invariant holds."""
        return ""
