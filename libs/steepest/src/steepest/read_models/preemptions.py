"""The preemptions of a run: who gave way to whom, and what that was predicted to cost and cost. A fold over its log."""

from __future__ import annotations

import msgspec

from steepest.events import cluster as c


class PreemptionSummary(msgspec.Struct, kw_only=True):
    """A waiting job that got the places of running ones.

    Attributes:
        plan: The placement that waited for the suspensions.
        waiting: The job that it places.
        victims: Who gave way.
        predicted_overhead_ms: Suspensions and resumptions of the victims together, as predicted when each began; None where
            nothing was known.
        measured_overhead_ms: What they took, as far as they are over; None before the first is.
        steps_lost: Steps that the victims had to do again.
        resumed: How many of the victims run again.
    """

    plan: str
    waiting: str = msgspec.field(name="for")
    victims: list[str]
    predicted_overhead_ms: int | None = None
    measured_overhead_ms: int | None = None
    steps_lost: int = 0
    resumed: int = 0


class PreemptionTimeline:
    """The preemptions so far, in the order of their plans.

    Attributes:
        summaries: One for each valid placement after suspensions.
    """

    def __init__(self) -> None:
        self.summaries: list[PreemptionSummary] = []
        self._victims: dict[str, str] = {}
        self._of: dict[str, PreemptionSummary] = {}
        self._away: dict[str, PreemptionSummary] = {}

    def note(self, event: c.ClusterEvent) -> None:
        """Take in the next event that counts."""
        match event:
            case c.TransitionPlanned(kind=c.Transition.SUSPEND):
                self._victims[event.plan] = event.job
            case c.PlacementPlanned() if event.after:
                self._planned(event)
            case c.OverheadPredicted() if (found := self._of.get(event.job)) is not None:
                found.predicted_overhead_ms = _sum(found.predicted_overhead_ms, event.predicted_ms)
            case c.OverheadMeasured() if (found := self._of.get(event.job)) is not None:
                found.measured_overhead_ms = _sum(found.measured_overhead_ms, event.measured_ms)
            case c.JobSuspended() if (found := self._of.get(event.job)) is not None:
                found.steps_lost += event.steps_lost
                self._away[event.job] = found
            case c.JobPlaced() if (away := self._away.pop(event.job, None)) is not None:
                away.resumed += 1

    def _planned(self, event: c.PlacementPlanned) -> None:
        victims = [self._victims[plan] for plan in event.after if plan in self._victims]
        if not victims:
            return
        found = PreemptionSummary(plan=event.plan, waiting=event.job, victims=victims)
        self.summaries.append(found)
        self._of |= dict.fromkeys(victims, found)


def _sum(before: int | None, more: int | None) -> int | None:
    return before if more is None else (before or 0) + more
