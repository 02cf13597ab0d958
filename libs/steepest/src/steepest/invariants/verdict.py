"""What a checker is, and what it says: holds, broken, or unknown. It must never know any event."""

from __future__ import annotations

import enum
from typing import ClassVar

import msgspec

from steepest.events.cluster import ClusterEvent
from steepest.events.received import Received

SHOWN = 5
"""Breaches that a message tells in words; the evidence names the positions of all."""


class Status(enum.StrEnum):
    """The three verdicts. An error in a checker is ``UNKNOWN``: it proves nothing."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a checker says of a log.

    Attributes:
        checker: Its name.
        evidence: Offsets of the records that show a breach, rising; empty unless broken.
        message: What was found, in sentences for people.
    """

    checker: str
    status: Status
    evidence: tuple[int, ...] = ()
    message: str = ""


class Checker:
    """An invariant of a pool's log, checked by folding it. Its docstring is the model: what the log proves, and how.

    Checkers take each record once, in order, and only those that count as delivered (see
    :class:`~steepest.invariants.audit.Audit`). They fold the raw events and never ask ``ClusterView``, which they are
    there to catch in errors; where they know less than it they are lenient, so that a breach is one whatever the view
    says.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self._breaches: list[str] = []
        self._evidence: dict[int, None] = {}

    def feed(self, received: Received[ClusterEvent]) -> None:
        """Take in the next record."""
        raise NotImplementedError

    def breach(self, message: str, *offsets: int) -> None:
        """Note a breach, with the records that show it."""
        self._breaches.append(message)
        self._evidence.update(dict.fromkeys(offsets))

    def verdict(self) -> Verdict:
        """What holds for the records so far."""
        if not self._breaches:
            return Verdict(checker=self.name, status=Status.HOLDS, message=self.summary())
        more = len(self._breaches) - SHOWN
        shown = self._breaches[:SHOWN] + ([f"and {more} more"] if more > 0 else [])
        evidence = tuple(sorted(self._evidence))
        return Verdict(checker=self.name, status=Status.BROKEN, evidence=evidence, message="; ".join(shown))

    def summary(self) -> str:
        """What the checker has to tell where its invariant holds."""
        return ""
