"""Draws a repetition like a simulated one, in seconds of the experiment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest_lab.reproduce.experiments.course import Course
from steepest_lab.reproduce.experiments.measures import BeforeAfter
from steepest_lab.reproduce.experiments.plots import drawn
from steepest_lab.reproduce.testbed.jobs import SCALE

Event = Received[c.ClusterEvent]


def picture(before: Sequence[Event], after: Sequence[Event], pair: BeforeAfter, title: str, *, lists: bool) -> str:
    """The runs by default and under the policy, as SVG; ``lists``: it is FlowCon's, and has lists in place of categories."""
    jobs = [event.event.job for event in after if isinstance(event.event, c.JobSubmitted)]
    completions = list(zip(jobs, pair.before, pair.after, strict=True))
    return drawn(_course(before, lists=lists), _course(after, lists=lists), completions, title)


def _course(events: Sequence[Event], *, lists: bool) -> Course:
    capacities = {one.event.node: one.event.capacity.cpu_m for one in events if isinstance(one.event, c.NodeJoined)}
    course = Course(capacities, lists=lists)
    for event in _scaled(events):
        course.notice(event)
    return course


def _scaled(events: Sequence[Event]) -> Iterable[Event]:
    """The events from the first submission on, in the experiment's time."""
    first_ms = next(one.at_ms for one in events if isinstance(one.event, c.JobSubmitted))
    for one in events:
        event = one.event
        if isinstance(event, c.GrowthMeasured) and event.per_second is not None:
            event = msgspec.structs.replace(event, per_second=event.per_second / SCALE)
        if one.at_ms >= first_ms:
            yield msgspec.structs.replace(one, at_ms=(one.at_ms - first_ms) * SCALE, event=event)
