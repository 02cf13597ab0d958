"""A candidate beside the live categorizer: the same losses under other parameters, and where that leads elsewhere.

It owns what is compared: for each job, when it passed into which category, and when it asked for another place. It must
never append anything: the candidate decides and does not act, so the losses after a move that it would have made, or not
made, are those that the live system saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from steepest.errors import UndecodableError
from steepest.events.cluster import ClusterEvent, LogOpened
from steepest.events.growth import CategoryChanged, GrowthMeasured, ReallocationRequested
from steepest.events.loss import JobWatched
from steepest.events.parameters import SpeConParameters
from steepest.events.received import ID, DecisionId, Received
from steepest.log.base import Record
from steepest.policies.specon.categorizer import Categorizer
from steepest.runtime.decode import received


class Step(msgspec.Struct, frozen=True):
    """A job's passage into a category, or (``category`` is ``move``) its first request for another place in one."""

    at_ms: int
    category: str


class Course(msgspec.Struct, kw_only=True):
    """What one categorizer made of one job.

    Attributes:
        steps: Its passages, in order.
        intervals: Intervals that were measured.
        requests: Requests for another place.
        growth: The growth measured last.
    """

    steps: list[Step] = msgspec.field(default_factory=list)
    intervals: int = 0
    requests: int = 0
    growth: float | None = None

    @property
    def category(self) -> str:
        """Where the job has come to."""
        passed = [step.category for step in self.steps if step.category != MOVE]
        return passed[-1] if passed else "PC"

    @property
    def asked_ms(self) -> int | None:
        """When it first asked for another place."""
        return next((step.at_ms for step in self.steps if step.category == MOVE), None)


MOVE = "move"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A job under both.

    Attributes:
        earlier_ms: By how much earlier the candidate would have asked for another place first; None where one never did.
    """

    job: str
    live: Course
    candidate: Course
    differs: bool
    earlier_ms: int | None = None


class Shadow:
    """The live courses and the candidate's, as records come."""

    def __init__(self, changes: Mapping[str, Any]) -> None:
        """``changes``: fields of ``SpeConParameters`` with the candidate's values."""
        self._changes = dict(changes)
        self._candidates: dict[int, Categorizer] = {}
        self._live: dict[str, Course] = {}
        self._shadow: dict[str, Course] = {}
        self._newest: dict[str, tuple[int, int]] = {}

    def hear(self, record: Record) -> None:
        """Take in the next record of ``loss`` or ``cluster``; those of each partition in order."""
        try:
            event: Received[Any] = received(record)
        except UndecodableError:
            return
        if isinstance(event.event, LogOpened):
            return
        if record.at.topic == Categorizer.topic:
            self._decide(event)
        else:
            self._note_live(event)

    def comparisons(self) -> Sequence[Comparison]:
        """Every job that either has measured, by name."""
        return [
            _comparison(job, self._live.get(job, Course()), self._shadow.get(job, Course()))
            for job in sorted({*self._live, *self._shadow})
        ]

    def _decide(self, event: Received[Any]) -> None:
        if isinstance(event.event, JobWatched):
            parameters = msgspec.structs.replace(event.event.parameters, **self._changes)
            event = msgspec.structs.replace(
                event, event=msgspec.structs.replace(event.event, parameters=checked(parameters))
            )
        candidate = self._candidates.setdefault(event.partition, Categorizer())
        for decision in candidate.step(event):
            _take(self._shadow, decision.event, event.at_ms)

    def _note_live(self, event: Received[ClusterEvent]) -> None:
        decision = DecisionId.parse(event.headers.get(ID, ""))
        if decision is None or decision.decider != Categorizer.name:
            return
        if decision.position <= self._newest.get(decision.stream, (-1, -1)):
            return  # delivered before
        self._newest[decision.stream] = decision.position
        _take(self._live, event.event, event.at_ms)


def checked(parameters: SpeConParameters) -> SpeConParameters:
    """Parameters that a pool could have.

    Raises:
        msgspec.ValidationError: They could not be.
    """
    return msgspec.convert(msgspec.to_builtins(parameters), SpeConParameters)


def _take(courses: dict[str, Course], event: ClusterEvent, at_ms: int) -> None:
    match event:
        case GrowthMeasured(job=job, growth=growth):
            course = courses.setdefault(job, Course())
            course.intervals += 1
            course.growth = growth if growth is not None else course.growth
        case CategoryChanged(job=job, after=after):
            courses.setdefault(job, Course()).steps.append(Step(at_ms, str(after)))
        case ReallocationRequested(job=job):
            course = courses.setdefault(job, Course())
            course.requests += 1
            if not course.steps or course.steps[-1].category != MOVE:
                course.steps.append(Step(at_ms, MOVE))


def _comparison(job: str, live: Course, candidate: Course) -> Comparison:
    both = live.asked_ms is not None and candidate.asked_ms is not None
    return Comparison(
        job=job,
        live=live,
        candidate=candidate,
        differs=live != candidate,
        earlier_ms=(live.asked_ms or 0) - (candidate.asked_ms or 0) if both else None,
    )
