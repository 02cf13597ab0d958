"""How the jobs of a run gave way to each other, and how its gangs were scaled: each plan, why, and what it cost. Pure.

The timeline of a run is made of these folds.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steepest.events import cluster as c


class Scaling(msgspec.Struct, kw_only=True):
    """One plan that gave a gang another size.

    Attributes:
        planned_ms: Wall clock of its plan.
        before: Replicas before it.
        after: Replicas after it.
        nodes: The nodes afterwards, each once.
        room_for: The job that room was made for; None where the gang was scaled for another reason.
        took_ms: From the plan to the first step at the new size; None while it is under way or where it failed.
        paused_ms: From the stop of the processes to that step; likewise.
            0 where surplus replicas left and the others trained on.
        failed: Why it did not work out; empty where it did, or may still.
    """

    job: str
    planned_ms: int
    before: int
    after: int
    nodes: tuple[str, ...]
    room_for: str | None
    rule: str
    took_ms: int | None = None
    paused_ms: int | None = None
    steps_lost: int = 0
    failed: str = ""

    @property
    def is_up(self) -> bool:
        """Whether the gang grew."""
        return self.after > self.before


class Scalings:
    """All plans of a run that gave a gang another size, in their order."""

    def __init__(self) -> None:
        self._by_plan: dict[str, Scaling] = {}

    @property
    def all(self) -> Sequence[Scaling]:
        """Every one of them."""
        return [*self._by_plan.values()]

    @property
    def ups(self) -> int:
        """How often a gang has grown."""
        return sum(one.is_up for one in self.all if one.took_ms is not None)

    @property
    def downs(self) -> int:
        """How often a gang has shrunk."""
        return sum(not one.is_up for one in self.all if one.took_ms is not None)

    def note(self, event: c.ClusterEvent, at_ms: int) -> None:
        """Take in a record that the view has accepted."""
        match event:
            case c.TransitionPlanned(kind=c.Transition.SCALE | c.Transition.SHED):
                self._by_plan[event.plan] = Scaling(
                    job=event.job,
                    planned_ms=at_ms,
                    before=len(event.sources),
                    after=len(event.nodes),
                    nodes=tuple(dict.fromkeys(event.nodes)),
                    room_for=event.room_for,
                    rule=event.because.rule,
                )
            case c.TransitionFinished(plan=plan) if plan in self._by_plan:
                scaling = self._by_plan[plan]
                scaling.took_ms, scaling.paused_ms = event.took_ms, event.paused_ms
                scaling.steps_lost = event.steps_lost
            case c.TransitionFailed(plan=plan) if plan in self._by_plan:
                self._by_plan[plan].failed = event.message or event.code
            case c.PlanAbandoned(plan=plan) if plan in self._by_plan:
                self._by_plan[plan].failed = "abandoned"


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
