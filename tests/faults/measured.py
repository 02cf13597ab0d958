"""What of the jobs' reports must have been measured, by the log alone: the categorizer's counting, folded once more.

It owns how long a job may report before an interval has ended. It must never know what growth decides.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.loss import JobUnwatched, JobWatched, LossReported
from steepest.events.received import ID, SEQUENCE, SOURCE, DecisionId, Received, is_number
from steepest.policies.specon.growth import BACK_INTERVALS, LARGEST_VALUE

Ends = Mapping[tuple[int, str], Sequence[int]]
"""By partition of ``loss`` and job: the offsets of the reports with which its intervals ended, in order."""


class Course(msgspec.Struct):
    """A job that is watched.

    Attributes:
        interval_ms: The length of its intervals now.
        longest_ms: The greatest that they had.
        since: The offset of the report from which on an interval must end.
        newest_ms: The newest time of its reports since its clock was set back last; None before the first one.
        second_ms: That time as the second report from ``since`` on left it; None before that.
    """

    metric: str
    incarnation: int
    interval_ms: int
    longest_ms: int
    sequences: dict[str, int] = {}
    since: int = 0
    newest_ms: int | None = None
    second_ms: int | None = None


def ends(decisions: Iterable[Received[Any]]) -> Ends:
    """The ends of intervals among what the pools' logs hold."""
    found: dict[tuple[int, str], list[int]] = {}
    for received in decisions:
        if isinstance(event := received.event, c.GrowthMeasured):
            cause = DecisionId.parse(received.headers.get(ID, ""))
            if cause is not None:
                found.setdefault((cause.partition, event.job), []).append(cause.offset)
    return {of: sorted(offsets) for of, offsets in found.items()}


def unmeasured(losses: Iterable[Received[Any]], known: Ends) -> Iterator[str]:
    """The jobs of a partition, in order from its first record on, of which an interval should have ended and did not.

    An interval is over at the latest with the first report that is later, by more than an interval, than the second one
    from any report on. Where a clock was set back by so much that the grid begins again, this is counted from there.
    """
    watched: dict[str, Course] = {}
    for received in losses:
        event = received.event
        match event:
            case JobWatched():
                _watch(watched, event)
            case JobUnwatched():
                watched.pop(event.job, None)
            case LossReported() if (course := watched.get(event.job)) is not None:
                if not _counts(course, event, received) or not _is_due(course, received):
                    continue
                offsets = known.get((received.partition, event.job), ())
                last = bisect_right(offsets, received.offset)
                if not last or offsets[last - 1] <= course.since:
                    yield f"{event.job} reports, and no growth was measured: loss {course.since} to {received.offset}"
                    del watched[event.job]
                course.since, course.second_ms = received.offset, None


def _watch(watched: dict[str, Course], event: JobWatched) -> None:
    length = event.parameters.interval_ms
    course = watched.get(event.job)
    if course is None:
        watched[event.job] = Course(event.metric, event.incarnation, length, length)
    elif event.incarnation >= course.incarnation:
        course.metric, course.incarnation, course.interval_ms = event.metric, event.incarnation, length
        course.longest_ms = max(course.longest_ms, length)


def _counts(course: Course, report: LossReported, received: Received[Any]) -> bool:
    """Whether a report is the first of its number, of this incarnation, and of what is watched."""
    source, number = received.headers.get(SOURCE), received.headers.get(SEQUENCE, "")
    if source is not None:
        if not is_number(number) or int(number) <= course.sequences.get(source, -1):
            return False
        course.sequences[source] = int(number)
    is_watched = report.metric == course.metric and report.split == "train"
    return is_watched and report.incarnation >= course.incarnation and abs(report.value) <= LARGEST_VALUE


def _is_due(course: Course, received: Received[Any]) -> bool:
    """Count a report; whether an interval must have ended with it, or before it."""
    at_ms = received.at_ms
    if course.newest_ms is None or course.newest_ms - at_ms > BACK_INTERVALS * course.interval_ms:
        course.since, course.newest_ms, course.second_ms = received.offset, at_ms, None
        return False
    course.newest_ms = max(course.newest_ms, at_ms)
    if course.second_ms is None:
        course.second_ms = course.newest_ms
        return False
    return at_ms > course.second_ms + course.longest_ms
