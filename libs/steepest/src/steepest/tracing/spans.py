"""A pool's log as spans: the first record of a trace, its decisions, its plans with their steps.

It owns which records make a span, and how spans hang together. Ids and parents come from the records' headers and from the
ids of decisions, so two processes that read the same log make the same spans. It must never know who takes them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import msgspec

from steepest.describe import ROUTINE
from steepest.events import cluster as c
from steepest.events.received import DecisionId, Received
from steepest.trace_context import trace_id, trace_in, trace_of_request
from steepest.view.cluster_view import ClusterView
from steepest.view.state import PlanKind, PlanStatus

ASKED = frozenset({PlanKind.CANCEL, PlanKind.CLEAR})
"""Plans that the view makes of a request, or of a gang's end: their steps belong to the span of that record."""

RECENT = 10_000
"""Records that may be named as a cause: a decision follows its cause within a batch or two."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A span of a trace.

    Attributes:
        traceparent: Its trace's id and its own, in the form of W3C Trace Context.
        parent: Its parent, in the same form; empty: it is the first of its trace, or what it follows from is not known.
        begin_ms: By the wall clock of records, as ``end_ms``.
        error: Why it failed; empty where it did not.
    """

    name: str
    traceparent: str
    parent: str = ""
    begin_ms: int
    end_ms: int
    attributes: dict[str, str | int] = {}
    error: str = ""


class _Cause(msgspec.Struct, frozen=True):
    """A record that decisions may follow from; ``shown``: its span was given, or is another's to give."""

    traceparent: str
    name: str
    at_ms: int
    shown: bool


class SpanReader:
    """Follows one pool's log, and gives the spans that end at each record."""

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._causes: OrderedDict[str, _Cause] = OrderedDict()
        self._parents: dict[str, str] = {}
        self._begun: dict[str, Received[c.StepBegun]] = {}

    def begin(self, view: ClusterView) -> None:
        """Begin with the view's state: the causes of plans in flight are unknown."""
        self._parents = {
            name: self._parents.get(name, "") for name, plan in view.in_flight.items() if plan.kind not in ASKED
        }
        self._begun.clear()

    def observe(self, view: ClusterView, received: Received[Any], *, accepted: bool) -> Iterator[Span]:
        """The spans that end at a record that was folded."""
        event, trace = received.event, trace_in(received.headers)
        decision = view.decision
        place = f"{received.topic}/{received.partition}/{received.offset}"
        self._note(
            place,
            _Cause(trace or received.trace(view.state.epoch), type(event).__name__, received.at_ms, bool(trace)),
        )
        if not trace:
            return
        if decision is not None and not isinstance(event, ROUTINE):
            parent, first = self._parent(decision, trace, received.at_ms)
            yield from first
            plan = getattr(event, "plan", None)
            if accepted and plan in view.in_flight:
                self._parents[plan] = parent  # its span ends with it
            else:
                yield self._span(received, trace, parent, error=view.refused.value if view.refused else "")
        elif accepted and getattr(event, "attempt", None) is not None:
            yield from self._step(view, received, trace)
        elif trace == trace_of_request(received.topic, received.partition, getattr(event, "request", "")):
            yield self._span(received, trace)
        if accepted and (plan := getattr(event, "plan", None)) is not None:
            yield from self._plan(view, plan, received)

    def _note(self, place: str, cause: _Cause) -> None:
        self._causes[place] = cause
        if len(self._causes) > RECENT:
            self._causes.popitem(last=False)

    def _parent(self, decision: DecisionId, trace: str, at_ms: int) -> tuple[str, list[Span]]:
        """The cause of a decision, and its span if that was not given yet."""
        place = f"{decision.topic}/{decision.partition}/{decision.offset}"
        cause = self._causes.get(place)
        if cause is None:
            if decision.topic == "cluster":
                return "", []
            # The cause is on another topic. What a decider makes has the time of its cause.
            record = Received(
                event=None, topic=decision.topic, partition=decision.partition, offset=decision.offset, at_ms=at_ms
            )
            cause = _Cause(record.trace(decision.epoch), f"{decision.topic} record", at_ms, shown=False)
        if trace_id(cause.traceparent) != trace_id(trace):
            return "", []  # the record brought its trace with it, in a header that is not to be seen from here
        if cause.shown:
            return cause.traceparent, []
        self._note(place, msgspec.structs.replace(cause, shown=True))
        first = Span(
            name=cause.name,
            traceparent=cause.traceparent,
            begin_ms=cause.at_ms,
            end_ms=cause.at_ms,
            attributes={"steepest.pool": self._pool, "steepest.record": place},
        )
        return cause.traceparent, [first]

    def _span(self, received: Received[Any], trace: str, parent: str = "", error: str = "") -> Span:
        return Span(
            name=type(received.event).__name__,
            traceparent=trace,
            parent=parent,
            begin_ms=received.at_ms,
            end_ms=received.at_ms,
            attributes=self._attributes(received.event, received.offset),
            error=error,
        )

    def _step(self, view: ClusterView, received: Received[Any], trace: str) -> Iterator[Span]:
        event = received.event
        if isinstance(event, c.StepBegun):
            self._begun[event.plan] = received
            return
        beginning, plan = self._begun.pop(event.plan, None), view.plan(event.plan)
        if beginning is None or plan is None:
            return
        begun = beginning.event
        yield Span(
            name=f"step {begun.step.value}",
            traceparent=trace,
            parent=plan.trace,
            begin_ms=beginning.at_ms,
            end_ms=max(beginning.at_ms, received.at_ms),
            attributes={
                **self._attributes(event, received.offset),
                "steepest.attempt": begun.attempt,
                "steepest.node": begun.node,
            },
            error=event.code if isinstance(event, c.StepFailed) else "",
        )

    def _plan(self, view: ClusterView, name: str, received: Received[Any]) -> Iterator[Span]:
        plan = view.plan(name)
        if plan is None or plan.status is PlanStatus.IN_FLIGHT or not plan.trace or name not in self._parents:
            return
        self._begun.pop(name, None)
        yield Span(
            name=f"plan {plan.kind.value}",
            traceparent=plan.trace,
            parent=self._parents.pop(name),
            begin_ms=plan.made_ms,
            end_ms=max(plan.made_ms, received.at_ms),
            attributes={
                **self._attributes(received.event, received.offset),
                "steepest.outcome": plan.status.value,
                "steepest.sources": ",".join(plan.sources),
                "steepest.targets": ",".join(plan.targets),
            },
            error="" if plan.status is PlanStatus.FINISHED else plan.code or plan.status.value,
        )

    def _attributes(self, event: Any, offset: int) -> dict[str, str | int]:
        named = {
            f"steepest.{name}": value
            for name in ("job", "plan", "node", "incarnation")
            if isinstance(value := getattr(event, name, None), str | int)
        }
        return {"steepest.pool": self._pool, "steepest.offset": offset, **named}
