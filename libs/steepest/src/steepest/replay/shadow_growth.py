"""Compares a candidate with the live categorizer: the same losses under other parameters, and the differences.

It owns what is compared: for each job, when it passed into which category, and when it asked for another place. What the
live categorizer has not decided yet is not compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from steepest.events.cluster import ClusterEvent, LogOpened
from steepest.events.growth import CategoryChanged, GrowthMeasured, ReallocationRequested
from steepest.events.loss import JobWatched
from steepest.events.parameters import SpeConParameters
from steepest.events.received import ID, DecisionId, Received
from steepest.policies.specon.categorizer import Categorizer


class GrowthStep(msgspec.Struct, frozen=True):
    """A job's passage into a category, or (``category`` is ``move``) its first request for another place in one."""

    at_ms: int
    category: str


class CategoryHistory(msgspec.Struct, kw_only=True):
    """The categories that one categorizer gave to one job.

    Attributes:
        steps: Its passages, in order.
        intervals: Intervals that were measured.
        requests: Requests for another place.
        growth: The growth measured last.
    """

    steps: list[GrowthStep] = msgspec.field(default_factory=list)
    intervals: int = 0
    requests: int = 0
    growth: float | None = None

    @property
    def asked_ms(self) -> int | None:
        """When it first asked for another place."""
        return next((step.at_ms for step in self.steps if step.category == MOVE), None)


MOVE = "move"


class ShadowGrowth:
    """The live categorizers' histories and the candidates', as records come.

    Attributes:
        live: By job.
        candidate: By job, as far as the live ones have come.
    """

    def __init__(self, change: Callable[[SpeConParameters], SpeConParameters]) -> None:
        """``change``: a job's parameters under the candidate."""
        self.live: dict[str, CategoryHistory] = {}
        self.candidate: dict[str, CategoryHistory] = {}
        self._change = change
        self._candidates: dict[int, Categorizer] = {}
        self._ahead: dict[int, deque[tuple[tuple[int, int], ClusterEvent, int]]] = {}
        self._newest: dict[int, tuple[int, int]] = {}

    def decide(self, received: Received[Any]) -> None:
        """Let the candidate decide about the next record of a partition of ``loss``."""
        event = received.event
        if isinstance(event, LogOpened):
            return
        if isinstance(event, JobWatched):
            event = msgspec.structs.replace(event, parameters=self._change(event.parameters))
            received = msgspec.structs.replace(received, event=event)
        candidate = self._candidates.setdefault(received.partition, Categorizer())
        ahead = self._ahead.setdefault(received.partition, deque())
        for index, decision in enumerate(candidate.step(received)):
            ahead.append(((received.offset, index), decision.event, received.at_ms))
        self._catch_up(received.partition)

    def note(self, received: Received[Any]) -> None:
        """Take in the next record of ``cluster``."""
        decision = DecisionId.parse(received.headers.get(ID, ""))
        if decision is None or decision.decider != Categorizer.name:
            return
        if decision.position <= self._newest.get(decision.partition, (-1, -1)):
            return  # delivered before
        self._newest[decision.partition] = decision.position
        _take(self.live, received.event, received.at_ms)
        self._catch_up(decision.partition)

    def _catch_up(self, partition: int) -> None:
        ahead, newest = self._ahead.get(partition), self._newest.get(partition, (-1, -1))
        while ahead and ahead[0][0] <= newest:
            _, event, at_ms = ahead.popleft()
            _take(self.candidate, event, at_ms)


def earlier_ms(live: CategoryHistory, candidate: CategoryHistory) -> int | None:
    """By how much earlier the candidate would have asked for another place first; None where one never did."""
    if live.asked_ms is None or candidate.asked_ms is None:
        return None
    return live.asked_ms - candidate.asked_ms


def _take(histories: dict[str, CategoryHistory], event: ClusterEvent, at_ms: int) -> None:
    match event:
        case GrowthMeasured(job=job, growth=growth):
            history = histories.setdefault(job, CategoryHistory())
            history.intervals += 1
            history.growth = growth if growth is not None else history.growth
        case CategoryChanged(job=job, after=after):
            histories.setdefault(job, CategoryHistory()).steps.append(GrowthStep(at_ms, str(after)))
        case ReallocationRequested(job=job):
            history = histories.setdefault(job, CategoryHistory())
            history.requests += 1
            if not history.steps or history.steps[-1].category != MOVE:
                history.steps.append(GrowthStep(at_ms, MOVE))
