"""Checker: CPU limits are within bounds, and the limits in force were planned."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import Checker

LEAST_M = 10
"""No limit is below 1 % of a core."""


class Limits(Checker):
    """Every CPU limit is one that a node can give and a job can run with, and none comes into force that was not planned.

    A limit is at least 1 % of a core and less than the largest capacity that the node had. The limits that a run gives
    to new and to completing jobs add up to less than two nodes: their shares to one, their floors 1/(n+1) to less than
    one. What the engine accepted, or refused, is what the plan that it names has for that incarnation on that node, and
    comes after the plan.
    """

    name = "limits"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._capacity_m: dict[str, int] = {}
        self._plans: dict[str, tuple[int, c.LimitsPlanned]] = {}
        self._applied = 0

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event, offset = received.event, received.offset
        match event:
            case c.NodeJoined():
                # A plan may have been made just before the node shrank.
                self._capacity_m[event.node] = max(self._capacity_m.get(event.node, 0), event.capacity.cpu_m)
            case c.LimitsPlanned():
                self._plan(event, offset)
            case c.LimitsApplied():
                self._applied += 1
                self._answer(event, offset, event.cpu_m)
            case c.LimitsRefused():
                self._answer(event, offset, None)

    def _plan(self, event: c.LimitsPlanned, offset: int) -> None:
        self._plans.setdefault(event.plan, (offset, event))
        capacity_m = self._capacity_m.get(event.node)
        if capacity_m is None:
            self.breach(f"{event.plan} limits jobs on {event.node}, which never joined", offset)
            return
        for limit in event.limits:
            if limit.cpu_m is not None and not LEAST_M <= limit.cpu_m < capacity_m:
                self.breach(f"{event.plan} limits {limit.job} to {limit.cpu_m}m of {capacity_m}m", offset)
        self._sum_up(event, capacity_m, offset)

    def _sum_up(self, event: c.LimitsPlanned, capacity_m: int, offset: int) -> None:
        """Check the sum of the limits set by this run: those of watched or unmeasured jobs are from earlier runs."""
        ruled = {
            seen.job
            for seen in event.because.jobs
            if seen.before is c.GrowthList.COMPLETING
            or (seen.before is c.GrowthList.NEW and seen.efficiency is not None)
        }
        if not event.because.total:
            return
        limits_m = [limit.cpu_m for limit in event.limits if limit.job in ruled and limit.cpu_m is not None]
        if sum(limits_m) >= 2 * capacity_m + LEAST_M * len(limits_m):
            self.breach(f"{event.plan} sets {sum(limits_m)}m in total on {event.node}, which has {capacity_m}m", offset)

    def _answer(self, event: c.LimitsApplied | c.LimitsRefused, offset: int, cpu_m: int | None) -> None:
        made, plan = self._plans.get(event.plan, (offset, None))
        wanted = [limit for limit in plan.limits if limit.job == event.job] if plan is not None else []
        if plan is None or not wanted or plan.node != event.node:
            self.breach(f"{event.job} answers {event.plan}, which has no limit for it there", offset)
        elif wanted[0].incarnation != event.incarnation:
            message = f"{event.plan} is for incarnation {wanted[0].incarnation} of {event.job}, not {event.incarnation}"
            self.breach(message, made, offset)
        elif isinstance(event, c.LimitsApplied) and wanted[0].cpu_m != cpu_m:
            self.breach(f"{event.plan} plans {wanted[0].cpu_m} for {event.job}, but {cpu_m} was set", made, offset)

    def summary(self) -> str:
        """The number of plans and of limits set."""
        return f"plans: {len(self._plans)}, limits set: {self._applied}"
