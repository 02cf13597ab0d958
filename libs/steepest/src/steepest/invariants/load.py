"""Folds the reservations on each node, and whether they fit its capacity.

It must never judge whether a plan should have its target.

Theory. A replica holds its requests on a node while its process may run there, and while a plan that targets the node has
begun and is not over: the migrator that began it considered it valid, so its target is reserved. What the processes of one
incarnation hold is their sum; the processes and the plan of a job are never there together, so the larger counts. A plan
that has not begun may be void, or wait for room, and reserves nothing here. For a node that shrinks, the largest capacity
that it ever had counts, because no decision is to blame for what was on it before. A process of which only a report is
known holds nothing: the log has lost its start, and no decision could know of it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import msgspec

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.invariants.checkers.step_rules import ObservedPlan, Steps
from steepest.invariants.processes import RunningProcess, RunningProcesses


class HeldCapacity(msgspec.Struct, kw_only=True):
    """A node: the largest capacity that it ever had, whether it is lost, and the reasons of each job's reservation.

    Attributes:
        reasons: By job and reason (a plan, or an incarnation), what each replica holds.
    """

    capacity: Resources
    lost: bool = False
    held: Resources = Resources()
    reasons: dict[str, dict[str, dict[int, Resources]]] = {}

    def of(self, job: str) -> Resources:
        """What a job holds here."""
        return _largest(sum(replicas.values(), Resources()) for replicas in self.reasons.get(job, {}).values())


class Reservations:
    """Folds nodes, processes and begun plans."""

    def __init__(self, steps: Steps, processes: RunningProcesses) -> None:
        """Use these folds, which must get each record between :meth:`before` and :meth:`feed`."""
        self._steps = steps
        self._processes = processes
        self._open: Sequence[ObservedPlan] = ()
        self.specs: dict[str, c.JobSpec] = {}
        self._sizes: dict[tuple[str, int], tuple[int, ...]] = {}
        self._places: dict[str, HeldCapacity] = {}
        self._gone: dict[str, None] = {}

    def before(self, event: c.ClusterEvent) -> None:
        """Take in what an event says itself, and note the plans that may be over behind it."""
        self._note(event)
        job = getattr(event, "job", None)
        self._open = self._steps.in_flight(job) if job else ()
        if isinstance(event, c.NodeGone):
            self._open = self._steps.all_in_flight()

    def feed(self, event: c.ClusterEvent, started: Sequence[RunningProcess], *, accepted: bool) -> list[str]:
        """Process an event, and what may run because of it; return the nodes whose reservations it increased."""
        if isinstance(event, c.StepBegun) and accepted and event.step is c.Step.START:
            self._sizes[event.job, event.incarnation] = self._sizes_of(event)
        fuller = [node for node in self._reserved(event, accepted=accepted) if node]
        fuller += [
            process.node
            for process in started
            if process.plan
            and self._hold(process.node, process.job, _reason(process), process.replica, self.asks(process))
        ]
        for process in self._processes.left:
            self._release(process.node, process.job, _reason(process), process.replica)
        for progress in self._open:
            if progress.over is not None or progress.has_no_target:
                self._release_plan(progress)
        if isinstance(event, c.NodeGone) and accepted:
            self._places.pop(event.node, None)
            self._gone[event.node] = None
        if isinstance(event, c.JobEnded):
            self.specs.pop(event.job, None)  # the name may be used again, for another job
        return fuller

    def of(self, job: str) -> Resources:
        """What a job holds on all nodes together, each replica as one; the larger of what it holds for several reasons."""
        totals: dict[str, Resources] = {}
        for place in self._places.values():
            for reason, replicas in place.reasons.get(job, {}).items():
                there = sum((amount.of_a_replica for amount in replicas.values()), Resources())
                totals[reason] = totals.get(reason, Resources()) + there
        return _largest(totals.values())

    def why_no_places(self, plan: c.PlacementPlanned | c.MigrationPlanned | c.TransitionPlanned) -> str:
        """Why nodes cannot be a plan's targets: unknown, lost, or too full; empty if they can."""
        wanted: dict[str, dict[int, Resources]] = {}
        for replica, (node, amount) in enumerate(self._targets(plan)):
            wanted.setdefault(node, {})[replica] = amount
        for node, replicas in wanted.items():
            if why := self._why_no_place(node, plan.job, replicas):
                return why
        return ""

    def _why_no_place(self, node: str, job: str, replicas: dict[int, Resources]) -> str:
        place = self._places.get(node)
        if place is None:
            return f"there is no node {node}"
        if place.lost:
            return f"node {node} is lost"
        total, now = sum(replicas.values(), Resources()), place.of(job)
        return "" if self.fits(node, now.larger(total) - now) else f"node {node} is full"

    def _targets(
        self, plan: c.PlacementPlanned | c.MigrationPlanned | c.TransitionPlanned
    ) -> list[tuple[str, Resources]]:
        spec = self.specs.get(plan.job)
        nodes = (plan.target,) if isinstance(plan, c.MigrationPlanned) else plan.nodes
        if spec is None:
            return [(node, Resources()) for node in nodes]
        sizes = () if isinstance(plan, c.MigrationPlanned) or not spec.allows(plan.sizes) else plan.sizes
        return list(zip(nodes, spec.replica_requests(sizes), strict=False))

    def _sizes_of(self, start: c.StepBegun) -> tuple[int, ...]:
        """How many replicas of each role a START starts; empty: as many as the roles name."""
        planned, spec = self._steps.plans[start.plan].planned, self.specs.get(start.job)
        if spec is None or not start.nodes:
            return ()
        if isinstance(planned, c.PlacementPlanned | c.TransitionPlanned) and planned.nodes == start.nodes:
            return planned.sizes
        before = self._sizes.get((start.job, planned.incarnation), ()) if planned is not None else ()
        if sum(spec.counts(before)) == len(start.nodes):
            return before
        return (len(start.nodes),) if len(spec.all_roles) == 1 else ()

    def asks(self, process: RunningProcess) -> Resources:
        """What a process has reserved; nothing where its job is unknown."""
        spec = self.specs.get(process.job)
        if spec is None:
            return Resources()
        requests = spec.replica_requests(self._sizes.get((process.job, process.incarnation), ()))
        return requests[process.replica] if process.replica < len(requests) else spec.chief_requests

    def fits(self, node: str, more: Resources = Resources()) -> bool:  # noqa: B008 - frozen
        """Whether a node's reservations plus ``more`` are within its capacity."""
        place = self._places.get(node)
        return place is not None and (place.held + more).fits(place.capacity)

    def words(self, node: str) -> str:
        """A node's reservations and capacity, in words."""
        place = self._places.get(node)
        if place is None:
            return "no such node"
        return f"{_words(place.held)} of {_words(place.capacity)}, by {', '.join(place.reasons)}"

    def _note(self, event: c.ClusterEvent) -> None:
        match event:
            case c.NodeJoined():
                self._join(event)
            case c.NodeLost() if place := self._places.get(event.node):
                place.lost = True
            case c.NodeUsage() if place := self._places.get(event.node):
                place.lost = False
            case c.JobSubmitted():
                self.specs.setdefault(event.job, event.spec.counted)

    def _join(self, event: c.NodeJoined) -> None:
        self._gone.pop(event.node, None)
        place = self._places.setdefault(event.node, HeldCapacity(capacity=Resources()))
        place.lost = False
        place.capacity = place.capacity.larger(event.capacity.of_a_node)

    def _reserved(self, event: c.ClusterEvent, *, accepted: bool) -> list[str]:
        """The targets that a plan reserves with the beginning of its first step, except those that were gone for good."""
        if not isinstance(event, c.StepBegun) or not accepted:
            return []
        progress = self._steps.plans[event.plan]
        if progress.planned is None or progress.has_no_target:
            return []
        return [
            node
            for replica, (node, amount) in enumerate(self._targets(progress.planned))
            if node not in progress.gone and self._hold(node, progress.job, progress.plan, replica, amount)
        ]

    def _release_plan(self, progress: ObservedPlan) -> None:
        for node in targets(progress):
            self._release(node, progress.job, progress.plan)

    def _hold(self, node: str, job: str, reason: str, replica: int, amount: Resources) -> bool:
        """Reserve what a replica asks for, once for all reasons; return whether more is reserved now."""
        place = self._places.get(node)
        if place is None:
            return node not in self._gone
        before = place.of(job)
        place.reasons.setdefault(job, {}).setdefault(reason, {})[replica] = amount
        more = place.of(job) - before
        place.held += more
        return more != Resources()

    def _release(self, node: str, job: str, reason: str, replica: int | None = None) -> None:
        """Give back what a replica holds for a reason; None: what all hold."""
        place = self._places.get(node)
        reasons = place.reasons.get(job) if place else None
        if place is None or reasons is None:
            return
        before = place.of(job)
        if replica is None:
            reasons.pop(reason, None)
        elif reason in reasons:
            reasons[reason].pop(replica, None)
            if not reasons[reason]:
                del reasons[reason]
        place.held -= before - place.of(job)
        if not reasons:
            del place.reasons[job]


def targets(progress: ObservedPlan) -> tuple[str, ...]:
    """The nodes on which a plan's job will be; empty for a cancel."""
    match progress.planned:
        case c.PlacementPlanned(nodes=nodes) | c.TransitionPlanned(nodes=nodes):
            return nodes
        case c.MigrationPlanned(target=target):
            return (target,)
    return ()


def _largest(amounts: Iterable[Resources]) -> Resources:
    return functools.reduce(Resources.larger, amounts, Resources())


def _reason(process: RunningProcess) -> str:
    return f"#{process.incarnation}"


def _words(amount: Resources) -> str:
    return f"{amount.cpu_m}m CPU, {amount.memory_mib} MiB, {amount.gpus} GPUs, {amount.replicas} replicas"
