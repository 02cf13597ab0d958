"""The checker of whole devices under the policy ``steepest``: who gives way to whom, and what was promised."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import SHOWN, Checker

RESCUED = 2
"""A gang whose promise was put off so often goes before all others."""

LATE_MS = 60_000
"""A start, and what a moment more is: later than its first promise by so much, and by 5 % of the time until then."""

LATE = 1.05


class WholeDevices(Checker):
    """Gangs hold devices whole and in their order, no promise is put off in silence, and those put off most go first.

    * A plan that starts a gang has a node for each of its replicas.
    * A gang that gives way has a later place in the order than the one that starts for it.
    * ``tier`` of ``PromiseRevised`` never falls for a job.
    * A gang that was put off less than twice does not start while one waits that was, that is as urgent, asks for
      the same for each replica, and for no more replicas: it would have had room in those places.

    The summary counts the jobs that finished later than they were promised first.
    """

    name = "whole-devices"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._specs: dict[str, c.JobSpec] = {}
        self._tiers: dict[str, int] = {}
        self._rescued: dict[str, None] = {}
        self._submitted_ms: dict[str, int] = {}
        self._due_ms: dict[str, int] = {}
        self._gives_way: dict[str, tuple[int, int]] = {}
        self._finished = 0
        self._late: dict[str, float] = {}

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event, offset = received.event, received.offset
        match event:
            case c.JobSubmitted() if event.job not in self._specs:
                self._specs[event.job], self._submitted_ms[event.job] = event.spec, received.at_ms
            case c.PromiseRevised():
                self._promise(event, received)
            case c.TransitionPlanned(because=c.Because(standing=c.FairStanding(place=int(place)))):
                self._gives_way[event.plan] = (place, offset)
            case c.PlacementPlanned(because=c.Because(standing=c.FairStanding(place=int(place)))):
                self._start(event, place, offset)
            case c.JobSuspended() if self._tiers.get(event.job, 0) >= RESCUED:
                self._rescued[event.job] = None
            case c.JobEnded() | c.JobRejected():
                if isinstance(event, c.JobEnded) and event.outcome is c.Outcome.FINISHED:
                    self._end(event.job, received.at_ms)
                for known in (self._specs, self._tiers, self._rescued, self._due_ms, self._submitted_ms):
                    known.pop(event.job, None)

    def _promise(self, event: c.PromiseRevised, received: Received[c.ClusterEvent]) -> None:
        if event.tier < self._tiers.get(event.job, 0):
            self.breach(
                f"the promise to {event.job} was put off {event.tier} times, after more before", received.offset
            )
        self._tiers[event.job] = event.tier
        if event.due_in_ms is not None:
            self._due_ms.setdefault(event.job, received.at_ms + event.due_in_ms)
        if event.tier >= RESCUED and event.ahead:
            self._rescued[event.job] = None

    def _start(self, event: c.PlacementPlanned, place: int, offset: int) -> None:
        spec = self._specs.get(event.job)
        if spec is None:
            return
        if len(event.nodes) != sum(spec.counts(event.sizes)):
            self.breach(f"{event.job} starts with {len(event.nodes)} places", offset)
        self._rescued.pop(event.job, None)
        for plan in event.after:
            behind, made = self._gives_way.pop(plan, (place + 1, offset))
            if behind <= place:
                self.breach(f"plan {plan} gives way to {event.job}, which comes after it", made, offset)
        if self._tiers.get(event.job, 0) < RESCUED:
            for other in [name for name in self._rescued if self._would_fit(self._specs.get(name), spec)]:
                self.breach(f"{event.job} starts before {other}, which was put off more often and would fit", offset)

    def _would_fit(self, waits: c.JobSpec | None, starts: c.JobSpec) -> bool:
        if waits is None or waits.node_rule != starts.node_rule or waits.queue != starts.queue or waits.first_node:
            return False
        alike = [role.requests for role in waits.all_roles] == [role.requests for role in starts.all_roles]
        return alike and waits.priority >= starts.priority and waits.world <= starts.world

    def _end(self, job: str, at_ms: int) -> None:
        due_ms = self._due_ms.get(job)
        if due_ms is None:
            return
        self._finished += 1
        promised_ms = max(due_ms - self._submitted_ms[job], 1)
        took_ms = at_ms - self._submitted_ms[job]
        if took_ms > LATE * promised_ms + LATE_MS:
            self._late[job] = took_ms / promised_ms - 1

    def summary(self) -> str:
        """How many jobs with a promise finished, and which of them later than it."""
        shown = ", ".join(f"{name} {share:+.0%}" for name, share in list(self._late.items())[:SHOWN])
        return f"jobs with a promise that finished: {self._finished}, late: {len(self._late)}" + (
            f" ({shown}{', …' if len(self._late) > SHOWN else ''})" if shown else ""
        )
