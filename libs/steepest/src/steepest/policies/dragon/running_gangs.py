"""The running gangs of a view that may be scaled, in the order of their starts, and what they could give up.

It owns this index, and keeps it up to date with the view. It must never know the queue. All of it follows from the view and
from the plans under way, so nothing of it is kept in a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from sortedcontainers import SortedDict

from steepest.events.common import NodeRule
from steepest.policies.dragon.spare import SpareRoom
from steepest.policies.pending import Pending
from steepest.policies.placement.by_rule import ByRule
from steepest.policies.placement.slots import Slots
from steepest.view.cluster_view import ClusterView
from steepest.view.movable import immovable
from steepest.view.state import Job, Phase

RULES_KEPT = 100
"""Rules of jobs for which what gangs could give up is kept up to date, as many as a pass looks at jobs that wait.

Each costs a look at every gang that changes.
"""

Start = tuple[int, int, str]
"""When a job was placed, its place in the queue, and its name."""


class DragonState(Pending):
    """What the gang-scheduler remembers.

    Attributes:
        announced: The jobs that it has rejected and not read back.
        passed_counted_ms: When its last pass was.
        acted_counted_ms: When it last acted, which includes the tries that a switch says count as well.
        failed: How often scaling a running job has failed.
        served: The job that others were scaled down for last.
    """

    announced: dict[str, None] = msgspec.field(default_factory=dict)
    passed_counted_ms: int = 0
    acted_counted_ms: int = 0
    failed: dict[str, int] = msgspec.field(default_factory=dict)
    served: str = ""


class RunningGangs:
    """The running gangs of one view, looked at with the plans of one decider under way."""

    def __init__(self, view: ClusterView, state: DragonState) -> None:
        self._view = view
        self._state = state
        self._changes = 0
        self._look_at_all()

    def is_of(self, view: ClusterView, state: DragonState) -> bool:
        """Whether this is the index of that view."""
        return self._view is view and self._state is state

    def in_order(self) -> Iterator[Job]:
        """Those that may be scaled, in the order of their starts."""
        return iter(self._order.values())

    def most_for(self, rule: NodeRule | None) -> Slots:
        """What would be free where a job with a rule may run if every gang were as small as it may be.

        Work: O(nodes + replicas of gangs) where it was not asked for lately; else O(what has changed).
        """
        if rule is None:
            return self._plain.most
        spare = self._by_rule.of(rule, self._spare_where)
        spare.count()  # as one that is made now, it has no gang for which a plan was just made
        return spare.most

    def _spare_where(self, rule: NodeRule) -> SpareRoom:
        spare = SpareRoom(self._view, rule)
        for job in self._order.values():
            spare.put(job)
        spare.count_all()
        return spare

    def look(self) -> None:
        """Take in what has changed since the last look."""
        nodes = self._view.nodes.changes
        changed = nodes.since(self._changes)
        if changed is None:
            self._look_at_all()
            return
        self._changes = nodes.now
        for name in changed:
            node = self._view.nodes.get(name)
            for job in list(node.jobs) if node is not None else ():
                self.refresh(job)
        for spare in self._spares():
            spare.count(changed)

    def refresh(self, name: str) -> None:
        """A job may have changed, or a plan for it been made or read back."""
        job, start = self._view.jobs.get(name), self._starts.pop(name, None)
        if start is not None:
            del self._order[start]
        if job is None or not self._may_be_scaled(job):
            for spare in self._spares():
                spare.drop(name)
            return
        self._starts[name] = start = (job.started_counted_ms, job.submitted_offset, name)
        self._order[start] = job
        for spare in self._spares():
            spare.put(job)

    def _look_at_all(self) -> None:
        self._changes = self._view.nodes.changes.now
        self._order: SortedDict[Start, Job] = SortedDict()
        self._starts: dict[str, Start] = {}
        self._plain = SpareRoom(self._view, None)
        self._by_rule: ByRule[SpareRoom] = ByRule(RULES_KEPT)
        for job in self._view.jobs:
            if job.phase is Phase.RUNNING:
                self.refresh(job.name)
        self._plain.count_all()

    def _spares(self) -> Iterator[SpareRoom]:
        yield self._plain
        yield from (spare for _, spare in self._by_rule.items())

    def _may_be_scaled(self, job: Job) -> bool:
        """Whether a plan to scale it would be valid, as far as the job goes, and has not failed too often."""
        return (
            job.phase is Phase.RUNNING
            and job.spec.is_gang
            and any(role.fewest < role.most for role in job.spec.all_roles)
            and job.plan is None
            and not job.cancel
            and not self._state.concerns(job)
            and immovable(job) is None
            and all(replica.alive or replica.left for replica in job.replicas)
            and self._state.failed.get(job.name, 0) < self._view.parameters.limits.moves_failed
            and all((node := self._view.nodes.get(name)) is not None and not node.lost for name in job.nodes)
        )
