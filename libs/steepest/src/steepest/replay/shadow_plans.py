"""Compares a candidate with the live deciders of a pool: at every record, what it would plan in their place.

It owns what the candidate sees, and what counts as a difference. Two sets of deciders read one log. The live ones, with
the live parameters, decide again what they decided (``steepest replay`` proves that). The candidates see the same history
under other parameters: the live plans and what became of them, those under way included. They never read their own
plans, which no effector carries out. Only the limit-planner goes on from the limits it would have set, because its rule is a
fold over them, and the gang-scheduler from the times at which it would have decided and acted. So the first difference of a
job is what the candidate would really have done; what comes later shows what it would do in a history that is the live
policy's.

A job's growth was measured by the live categorizer, in intervals of the live length, not of the candidate's.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from steepest.describe import places
from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.log.base import TopicPartition
from steepest.policies.decider import ClusterDecider
from steepest.policies.dragon.gang_scheduler import GangScheduler
from steepest.policies.flowcon.limit_planner import LimitPlanner
from steepest.policies.placement.placer import Placer
from steepest.policies.specon.node_scorer import NodeScorer
from steepest.policies.specon.rebalancer import Rebalancer
from steepest.runtime.decision_stream import MintedDecision
from steepest.runtime.engine import PoolEngine
from steepest.view.cluster_view import ClusterView
from steepest.view.state import ViewState

Change = Callable[[PoolParameters], PoolParameters]
"""A pool's parameters under the candidate."""

AT = TopicPartition("cluster")

ASKED = (Placer, NodeScorer, Rebalancer)
"""Deciders that remember nothing but what they wait to read back, which is the live ones' business."""


GANGS = len(ASKED)
"""The gang-scheduler's place among the deciders."""

OWN_TIMES = ("passed_counted_ms", "acted_counted_ms", "served")
"""The state of the candidate's gang-scheduler."""


class DifferenceKind(enum.StrEnum):
    """The kind of a decision about a job."""

    PLACE = "place"
    MOVE = "move"
    SCALE = "scale"
    LIMIT = "limit"


class Choice(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision about one job: its node, its gang's nodes, or the CPU that it may use at most, in millicores."""

    offset: int
    at_ms: int
    value: str | int


class PlanDifference(msgspec.Struct, kw_only=True):
    """The first record at which both decide otherwise about a job.

    Attributes:
        live: What the live decider chose there, or first thereafter; None where it never did.
        candidate: What the candidate did, likewise.
    """

    kind: DifferenceKind
    offset: int
    at_ms: int
    live: Choice | None = None
    candidate: Choice | None = None


class ShadowPlans:
    """A pool under the live deciders and under the candidates.

    Attributes:
        view: The pool as its log has left it.
        differences: By job and kind, in the order in which they came.
    """

    def __init__(self, change: Change) -> None:
        self.differences: dict[tuple[str, DifferenceKind], PlanDifference] = {}
        self._change = change
        self._live = PoolEngine(_deciders(), AT, "")
        first = self._changed(c.PoolConfigured())
        view = ClusterView(ViewState(reads=first.reads, parameters=first.parameters))
        self._candidate = PoolEngine(_deciders(), AT, "", view=view)
        self.view = self._live.view
        self._limits: tuple[dict[str, int | None], dict[str, int | None]] = ({}, {})

    def decide(self, received: Received[Any]) -> None:
        """Let both decide about the next record of the pool's log.

        Raises:
            LogVersionError: As :meth:`ClusterView.fold`.
        """
        for live, candidate in zip(self._live.deciders[: len(ASKED)], self._candidate.deciders, strict=False):
            candidate.state = msgspec.msgpack.decode(msgspec.msgpack.encode(live.state), type=type(live.state))
        self._let_gangs_wait()
        live_chose = dict(_choices(self._live.step(received)))
        chose = dict(_choices(self._candidate.step(self._under_candidate(received))))
        for job, kind in dict.fromkeys((*live_chose, *chose)):
            self._compare(job, kind, received, live_chose, chose)

    def _let_gangs_wait(self) -> None:
        """The candidate's gang-scheduler waits for what the live one waits for, and keeps its own times."""
        live, candidate = (engine.deciders[GANGS] for engine in (self._live, self._candidate))
        before = candidate.state
        candidate.state = msgspec.msgpack.decode(msgspec.msgpack.encode(live.state), type=type(live.state))
        for name in OWN_TIMES:
            setattr(candidate.state, name, getattr(before, name))

    def skip(self, offset: int) -> None:
        """Pass over a record that cannot be decoded."""
        for engine in (self._live, self._candidate):
            engine.skip(offset)

    def _compare(
        self, job: str, kind: DifferenceKind, at: Received[Any], live: Mapping[Any, Any], candidate: Mapping[Any, Any]
    ) -> None:
        choices = [side.get((job, kind)) for side in (live, candidate)]
        if kind is DifferenceKind.LIMIT:  # one stays until another one is planned
            for limits, side in zip(self._limits, (live, candidate), strict=True):
                if (job, kind) in side:
                    limits[job] = side[job, kind]
            choices = [limits.get(job) for limits in self._limits]
        known = self.differences.get((job, kind))
        if known is None:
            if choices[0] == choices[1]:
                return
            known = self.differences[job, kind] = PlanDifference(kind=kind, offset=at.offset, at_ms=at.at_ms)
        chosen = [None if value is None else Choice(at.offset, at.at_ms, value) for value in choices]
        known.live = known.live or chosen[0]
        known.candidate = known.candidate or chosen[1]

    def _under_candidate(self, received: Received[Any]) -> Received[Any]:
        if not isinstance(received.event, c.PoolConfigured):
            return received
        return msgspec.structs.replace(received, event=self._changed(received.event))

    def _changed(self, event: c.PoolConfigured) -> c.PoolConfigured:
        parameters = self._change(event.parameters)
        specon = msgspec.structs.replace(parameters.specon, interval_ms=event.parameters.specon.interval_ms)
        parameters = msgspec.structs.replace(parameters, specon=specon)
        return msgspec.structs.replace(event, parameters=parameters)


def _deciders() -> list[ClusterDecider]:
    return [*(kind() for kind in ASKED), GangScheduler(), LimitPlanner()]


def _choices(made: Iterable[MintedDecision]) -> Iterator[tuple[tuple[str, DifferenceKind], str | int | None]]:
    for one in made:
        match one.event:
            case c.PlacementPlanned() as event:
                yield (event.job, DifferenceKind.PLACE), places(event.nodes) if len(event.nodes) > 1 else event.nodes[0]
            case c.TransitionPlanned(kind=c.Transition.SCALE | c.Transition.SHED) as event:
                yield (event.job, DifferenceKind.SCALE), places(event.nodes)
            case c.MigrationPlanned() as event:
                yield (event.job, DifferenceKind.MOVE), event.target
            case c.LimitsPlanned() as event:
                for limit in event.limits:
                    yield (limit.job, DifferenceKind.LIMIT), limit.cpu_m
