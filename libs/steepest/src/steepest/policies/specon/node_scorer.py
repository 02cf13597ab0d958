"""SpeCon Algorithm 4: where a converged job goes, or that it stays.

The reading of the printed pseudo-code (thesis §5.2): the minimum score is found over all workers before any is chosen; the
score of the job's own worker includes the job itself, as the thesis's worked example shows (score 11 with Job-1 on it);
among workers with the minimum the one that uses least is the target; if the job's own worker is among them it stays. Either
way the job is decided, which the view remembers as ``migrated``, and freezes its category.

A worker without room for the job is out of the question, which the paper does not consider. The guard |PC| + |WC| > 1 is
Algorithm 3 line 15: at least two growing jobs must remain on the worker, or nobody would gain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.events.received import Received
from steepest.policies.pending import Pending
from steepest.policies.specon.score import score, seen
from steepest.view.cluster_view import ClusterView
from steepest.view.plans import why_immovable, why_no_room
from steepest.view.state import Job, Node, Phase

NODES_TOLD = 16
"""Nodes that a decision names among its inputs."""


class NodeScorer:
    """Answers each ``ReallocationRequested`` with a migration or a stay, once for each job."""

    name = "node-scorer"
    logic = 1
    state_type = Pending

    def __init__(self, state: Pending | None = None) -> None:
        self.state = state or Pending()

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """What follows from a record: at most one decision. Work: O(log n) in the number of nodes."""
        match received.event:
            case c.ReallocationRequested():
                return self._decide(view, view.jobs[received.event.job], received.offset)
            case c.MigrationPlanned():
                self.state.read_back(received.event.plan)
        return ()

    def _decide(self, view: ClusterView, job: Job, offset: int) -> Sequence[c.ClusterEvent]:
        if not _may_be_decided(view, job) or self.state.concerns(job):
            return ()
        source = view.nodes[job.nodes[0]]
        specon = view.parameters.specon
        if specon.guard and source.growing <= 1:
            return ()
        if job.mode is CheckpointMode.NONE:
            return (self._stay(view, job, source, "it cannot be checkpointed, so it stays"),)
        if why_immovable(job):
            return ()
        target = self._target(view, job, source)
        if target is source:
            return (self._stay(view, job, source, "Algorithm 4: its own node is among those with the lowest score"),)
        plan = c.MigrationPlanned(
            plan=f"move-{offset}",
            job=job.name,
            incarnation=job.incarnation,
            source=source.name,
            target=target.name,
            kind=c.MoveKind.REALLOCATION,
            because=self._because(view, job, source, "Algorithm 4: the lowest score, then the least use"),
        )
        self.state.add(plan.plan, job, source.name, target.name)
        return (plan,)

    def _target(self, view: ClusterView, job: Job, source: Node) -> Node:
        """The first node in the order of score, use and name that has room; the source where it is as good."""
        specon = view.parameters.specon
        lowest = score(source, self.state, specon)
        best = source
        for node in self._in_order(view):
            value = score(node, self.state, specon)
            if value >= lowest:
                break
            if not _why_out(job, node, source, self.state):
                lowest, best = value, node
        return best

    def _in_order(self, view: ClusterView) -> Iterator[Node]:
        """Nodes by rising score with plans under way counted: those few are sorted in again."""
        changed = self.state.nodes()
        specon = view.parameters.specon
        again = sorted(
            (view.nodes[name] for name in sorted(changed)),
            key=lambda node: (score(node, self.state, specon), node.used.cpu_m, node.name),
        )
        for node in view.nodes.by_score():
            if node.name in changed:
                continue
            while again and score(again[0], self.state, specon) <= view.nodes.score(node):
                yield again.pop(0)
            yield node
        yield from again

    def _stay(self, view: ClusterView, job: Job, source: Node, rule: str) -> c.StayDecided:
        return c.StayDecided(
            job=job.name,
            incarnation=job.incarnation,
            node=source.name,
            because=self._because(view, job, source, rule),
        )

    def _because(self, view: ClusterView, job: Job, source: Node, rule: str) -> c.Because:
        specon = view.parameters.specon
        told: list[c.NodeScore] = [seen(source, self.state, specon)]
        for node in self._in_order(view):
            if len(told) == NODES_TOLD:
                break
            if node is not source:
                told.append(seen(node, self.state, specon, _why_out(job, node, source, self.state)))
        told.sort(key=lambda node: (node.score, node.used_cpu_m, node.node))
        return c.Because(rule=rule, nodes=tuple(told), growing=source.growing)


def _may_be_decided(view: ClusterView, job: Job) -> bool:
    """Whether a request of the job is open: it runs, nothing is in flight, and Algorithm 4 has not decided about it."""
    return (
        view.parameters.moves
        and job.phase is Phase.RUNNING
        and job.alive
        and job.plan is None
        and job.cancel is None
        and not job.migrated
        and bool(job.nodes)
    )


def _why_out(job: Job, node: Node, source: Node, pending: Pending) -> str:
    if node is source:
        return ""
    if why := why_no_room(job, node, node.name):
        return why
    return "" if job.spec.requests.fits(pending.free(node)) else "a plan under way takes what is free"
