"""Checker: the categorizer uses the parameters in force. It is the only checker that also reads ``loss``."""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.loss import JobUnwatched, JobWatched
from steepest.events.parameters import SpeConParameters
from steepest.events.received import ID, SEQUENCE, SOURCE, DecisionId, Received, is_number
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import Checker

LAG_MS = 60_000
"""How long after a change, in counted time and in reports' time, the previous parameters may still be used."""


class ParameterHistory(msgspec.Struct):
    """The parameters of a job's reports, each with the offset from which it applies."""

    since: list[tuple[int, SpeConParameters]] = []
    incarnation: int = 0
    sequences: dict[str, int] = {}


class AnnouncedParameters:
    """Folds ``JobWatched`` as the categorizer does: the newest one of the newest incarnation applies."""

    def __init__(self) -> None:
        self._histories: dict[tuple[int, str], ParameterHistory] = {}

    def feed(self, received: Received[Any]) -> None:
        """Process the next record of a partition of ``loss``."""
        event = received.event
        if not isinstance(event, JobWatched | JobUnwatched):
            return
        course = self._histories.setdefault((received.partition, event.job), ParameterHistory())
        if _is_repeated(course, received):
            return
        if isinstance(event, JobUnwatched):
            course.incarnation, course.sequences = 0, {}
        elif event.incarnation >= course.incarnation:
            course.incarnation = event.incarnation
            if not course.since or course.since[-1][1] != event.parameters:
                course.since.append((received.offset, event.parameters))

    def before(self, partition: int, offset: int, job: str) -> SpeConParameters | None:
        """The parameters that apply to a job's report; None if they are unknown."""
        course = self._histories.get((partition, job))
        at = bisect_left(course.since, offset, key=itemgetter(0)) if course else 0
        return course.since[at - 1][1] if course and at else None


class ParametersInForce(Checker):
    """The categorizer judges every job by the parameters that the pool has in force.

    ``PoolConfigured`` puts parameters in force; the collector or bridge that reports a job's losses announces them
    with ``JobWatched``. An interval was judged by those of the newest ``JobWatched`` before the report that ended it,
    which the decision's id names. They must be those in force at the decision's position. Parameters have ``LAG_MS``,
    a minute, to arrive: before both the pool's counted time and the report's own are that far beyond the change, the
    older ones are no breach.
    """

    name = "parameters-in-force"

    def __init__(self, watched: AnnouncedParameters, folds: LogFolds) -> None:
        """``watched`` must have folded all partitions of ``loss``."""
        super().__init__(folds)
        self._watched = watched
        self._in_force = SpeConParameters()
        self._configured = 0
        self._late_counted_ms = self._late_ms = 0
        self._counted_ms = 0
        self._judged = 0
        self._reported: dict[tuple[int, str], None] = {}

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event = received.event
        match event:
            case c.Tick():
                self._counted_ms = max(self._counted_ms, event.counted_ms)
            case c.PoolConfigured() if event.parameters.specon != self._in_force:
                self._in_force = event.parameters.specon
                self._configured = received.offset
                self._late_counted_ms, self._late_ms = self._counted_ms + LAG_MS, received.at_ms + LAG_MS
            case c.GrowthMeasured():
                self._check(event.job, received)

    def summary(self) -> str:
        """The number of intervals checked."""
        return f"intervals: {self._judged}"

    def _check(self, job: str, received: Received[c.ClusterEvent]) -> None:
        cause = DecisionId.parse(received.headers.get(ID, ""))
        used = self._watched.before(cause.partition, cause.offset, job) if cause and cause.topic == "loss" else None
        if used is None:
            return
        self._judged += 1
        is_late = self._counted_ms >= self._late_counted_ms and received.at_ms >= self._late_ms
        if used != self._in_force and is_late and (self._configured, job) not in self._reported:
            self._reported[self._configured, job] = None
            message = f"job {job} is measured with other parameters than those in force since record {self._configured}"
            self.breach(message, self._configured, received.offset)


def _is_repeated(course: ParameterHistory, received: Received[Any]) -> bool:
    source, number = received.headers.get(SOURCE), received.headers.get(SEQUENCE, "")
    if source is None or not is_number(number):
        return False
    repeated = int(number) <= course.sequences.get(source, -1)
    course.sequences[source] = max(int(number), course.sequences.get(source, -1))
    return repeated
