"""Folds the reservations on each node, and whether they fit its capacity.

It must never judge whether a plan should have its target.

Theory. A job holds its requests on a node while one of its processes may run there, and while a plan that targets the node
has begun and is not over: the migrator that began it considered it valid, so its target is reserved. A plan that has not
begun may be void and reserves nothing here. For a node that shrinks, the largest capacity that it ever had counts, because
no decision is to blame for what was on it before.
"""

from __future__ import annotations

import msgspec

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.received import Received
from steepest.invariants.checkers.step_rules import ObservedPlan, Steps
from steepest.invariants.processes import RunningProcess, RunningProcesses


class HeldCapacity(msgspec.Struct, kw_only=True):
    """A node: the largest capacity that it ever had, whether it is lost, and the reasons of each job's reservation."""

    capacity: Resources
    lost: bool = False
    held: Resources = Resources()
    reasons: dict[str, dict[str, None]] = {}


class Reservations:
    """Folds nodes, processes and begun plans. It feeds the folds that it depends on."""

    def __init__(self) -> None:
        self.steps = Steps()
        self.processes = RunningProcesses(self.steps)
        self.requests: dict[str, Resources] = {}
        self._places: dict[str, HeldCapacity] = {}

    def feed(self, received: Received[c.ClusterEvent]) -> list[str]:
        """Process a record; return the nodes whose reservations it increased."""
        event = received.event
        match event:
            case c.NodeJoined():
                self._join(event)
            case c.NodeLost() if place := self._places.get(event.node):
                place.lost = True
            case c.NodeUsage() if place := self._places.get(event.node):
                place.lost = False
            case c.JobSubmitted():
                self.requests.setdefault(event.job, event.spec.requests)
        open_before = self.steps.in_flight(job) if (job := getattr(event, "job", None)) else []
        if isinstance(event, c.NodeGone):
            open_before = self.steps.all_in_flight()
        accepted = self.steps.feed(received)
        started = self.processes.feed(received, accepted=accepted)
        fuller = [node for node in self._reserved(event, accepted=accepted) if node]
        if started is not None and self._hold(started.node, started.job, _reason(started)):
            fuller.append(started.node)
        for process in self.processes.left:
            self._release(process.node, process.job, _reason(process))
        for progress in open_before:
            if progress.over is not None:
                self._release_plan(progress)
        if isinstance(event, c.NodeGone):
            self._places.pop(event.node, None)
        if isinstance(event, c.JobEnded):
            self.requests.pop(event.job, None)  # the name may be used again, for another job
        return fuller

    def why_no_place(self, node: str, job: str) -> str:
        """Why a node cannot be a job's target: unknown, lost, or too full; empty if it can."""
        place = self._places.get(node)
        if place is None:
            return f"there is no node {node}"
        if place.lost:
            return f"node {node} is lost"
        if not self.fits(node, self.requests.get(job, Resources())):
            return f"node {node} is full"
        return ""

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

    def _join(self, event: c.NodeJoined) -> None:
        place = self._places.setdefault(event.node, HeldCapacity(capacity=event.capacity))
        place.lost = False
        old, new = place.capacity, event.capacity
        place.capacity = Resources(
            max(old.cpu_m, new.cpu_m), max(old.memory_mib, new.memory_mib), max(old.gpus, new.gpus)
        )

    def _reserved(self, event: c.ClusterEvent, *, accepted: bool) -> list[str]:
        """The targets that a plan reserves with the beginning of its first step."""
        if not isinstance(event, c.StepBegun) or not accepted:
            return []
        progress = self.steps.plans[event.plan]
        return [node for node in targets(progress) if self._hold(node, progress.job, progress.plan)]

    def _release_plan(self, progress: ObservedPlan) -> None:
        for node in targets(progress):
            self._release(node, progress.job, progress.plan)

    def _hold(self, node: str, job: str, reason: str) -> bool:
        """Reserve a job's requests, once for all reasons; return whether the reservation is new."""
        place = self._places.get(node)
        if place is None:
            return True
        reasons = place.reasons.setdefault(job, {})
        is_new = not reasons
        reasons[reason] = None
        if is_new:
            place.held += self.requests.get(job, Resources())
        return is_new

    def _release(self, node: str, job: str, reason: str) -> None:
        place = self._places.get(node)
        reasons = place.reasons.get(job) if place else None
        if place is None or reasons is None:
            return
        reasons.pop(reason, None)
        if not reasons:
            del place.reasons[job]
            place.held -= self.requests.get(job, Resources())


def targets(progress: ObservedPlan) -> tuple[str, ...]:
    """The nodes on which a plan's job will be; empty for a cancel."""
    match progress.planned:
        case c.PlacementPlanned(nodes=nodes):
            return nodes
        case c.MigrationPlanned(target=target):
            return (target,)
    return ()


def _reason(process: RunningProcess) -> str:
    return f"#{process.incarnation}"


def _words(amount: Resources) -> str:
    return f"{amount.cpu_m}m CPU, {amount.memory_mib} MiB, {amount.gpus} GPUs"
