"""Checker: a gang runs whole or not at all."""

from __future__ import annotations

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import Checker

WITHIN_MS = 300_000
"""Counted time within which a gang must be whole again, or stopped: more than its START or STOP may take."""


class GangState(msgspec.Struct):
    """A gang, and its newest incarnation.

    Attributes:
        nodes: Where its replicas were started.
        sizes: How many replicas of each role it has; empty: as many as its roles name.
        finished: Its replicas that have exited with status 0.
        partial_counted_ms: Since when only a part of it runs; None while it is whole, or nothing of it runs.
    """

    spec: c.JobSpec
    incarnation: int = 0
    nodes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    finished: dict[int, None] = {}
    partial_counted_ms: int | None = None
    since: int = 0


class GangWhole(Checker):
    """A gang runs whole or not at all, except while a start or a stop is under way.

    From the first report that a replica of an incarnation runs, every other replica of it must run too, or have finished
    with status 0, or be one that its role can do without; otherwise the rest must be stopped. A gang of which only a part
    is reported as running for 300 s of counted time is a breach. While one of its nodes is lost, nothing is known of the
    replicas there, and the time starts again.
    """

    name = "gang-whole"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._gangs: dict[str, GangState] = {}
        self._counted_ms = 0
        self._starts = 0

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event = received.event
        counts = self._folds.counts
        match event:
            case c.JobSubmitted() if event.spec.is_gang:
                self._gangs.setdefault(event.job, GangState(event.spec))
            case c.StepBegun(step=c.Step.START) if counts and event.job in self._gangs:
                self._begin(self._gangs[event.job], event)
            case c.JobPlaced() if counts and event.job in self._gangs:
                self._gangs[event.job].sizes = event.sizes
                self._starts += 1
            case c.ReplicaStopped(exit_status=0) if (gang := self._gangs.get(event.job)) is not None:
                if gang.incarnation == event.incarnation:
                    gang.finished[event.replica] = None
            case c.JobEnded():
                self._gangs.pop(event.job, None)
            case c.Tick():
                self._counted_ms = max(self._counted_ms, event.counted_ms)
                for name, gang in self._gangs.items():
                    self._check(name, gang, received.offset)

    def _begin(self, gang: GangState, event: c.StepBegun) -> None:
        if gang.incarnation != event.incarnation:
            gang.incarnation, gang.nodes, gang.sizes, gang.finished = event.incarnation, event.nodes, (), {}

    def _check(self, name: str, gang: GangState, offset: int) -> None:
        if not self._is_partial(name, gang):
            gang.partial_counted_ms = None
        elif gang.partial_counted_ms is None:
            gang.partial_counted_ms, gang.since = self._counted_ms, offset
        elif self._counted_ms - gang.partial_counted_ms >= WITHIN_MS:
            self.breach(
                f"a part of job {name} runs as incarnation {gang.incarnation}, and the rest does not", gang.since
            )
            gang.partial_counted_ms = self._counted_ms

    def _is_partial(self, name: str, gang: GangState) -> bool:
        processes = self._folds.processes.of(name)
        running = {one.replica: None for one in processes if one.proven and one.incarnation == gang.incarnation}
        if not running or any(node in self._folds.steps.lost for node in gang.nodes):
            return False
        if 0 in gang.finished and gang.spec.success is c.SuccessRule.CHIEF:
            return True  # the others are to be stopped
        if len(running) + len(gang.finished) >= len(gang.nodes):
            return False
        if 0 not in running and 0 not in gang.finished:
            return True
        if sum(gang.spec.counts(gang.sizes)) != len(gang.nodes):
            return False  # not placed yet, and its sizes are not known
        going = [0] * len(gang.spec.all_roles)
        for index, role in enumerate(gang.spec.role_indexes(gang.sizes)):
            going[role] += index in running or index in gang.finished
        counts = gang.spec.counts(gang.sizes)
        roles = zip(gang.spec.all_roles, going, counts, strict=True)
        return any(count != before and not role.allows(count) for role, count, before in roles)

    def summary(self) -> str:
        """How often a gang was started."""
        return f"gangs started: {self._starts}"
