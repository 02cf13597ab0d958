"""How the gangs of a run were scaled: every valid plan with its sizes, its reason, and what it cost. Pure."""

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
