"""SpeCon Algorithm 4: where a converged job goes, or that it stays.

The reading of the printed pseudo-code (thesis §5.2.2): the minimum score is found over all workers before any is chosen;
the score of the job's own worker includes the job itself, as the thesis's worked example shows (score 11 with Job-1 on
it); among workers with the minimum the one that uses least is the target; if the job's own worker is among them it
stays. Either way the job is decided, which the view remembers as ``migrated``, and freezes its category.

A worker without room for the job is excluded, which the paper does not consider. The guard |PC| + |WC| > 1
is Algorithm 3 line 15: at least two growing jobs must remain on the worker, or no job would gain. Where FlowCon limits
jobs as well, a request is left unanswered while a cap may be all that is wrong, or a move would not pay
(:mod:`steepest.policies.flowcon.with_specon`).
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

import msgspec

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.events.received import Received
from steepest.policies.flowcon import with_specon
from steepest.policies.pending import Pending
from steepest.policies.specon.score import by_score, score, seen
from steepest.policies.specon.undecided import undecided
from steepest.view.cluster_view import ClusterView
from steepest.view.movable import immovable
from steepest.view.state import Job, Node
from steepest.view.validity import room_sentence

NODES_NAMED = 16
"""Nodes that a decision names among its inputs."""


class NodeScorer:
    """Answers each ``ReallocationRequested`` with a migration or a stay, once for each job."""

    name = "node-scorer"
    logic = 1
    reads: frozenset[type] = frozenset({c.ReallocationRequested, c.MigrationPlanned})
    state_type = Pending

    def __init__(self, state: Pending | None = None) -> None:
        self.state = state or Pending()

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: the job's next request is answered."""
        if isinstance(event, c.MigrationPlanned):
            self.state.read_back(event.plan)

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """What follows from a record: at most one decision. Work: O(log n) in the number of nodes."""
        match received.event:
            case c.ReallocationRequested() if view.touched is not None:
                return self._decide(view, view.touched, received.offset)
            case c.MigrationPlanned(plan=plan):
                self.state.read_back(plan)
        return ()

    def _decide(self, view: ClusterView, job: Job, offset: int) -> Sequence[c.ClusterEvent]:
        if undecided(view, job) or self.state.awaits("job", job.name):
            return ()
        source = view.nodes[job.nodes[0]]
        if job.mode is CheckpointMode.NONE:
            return (self._stay(view, job, source, "it cannot be checkpointed, so it stays"),)
        if immovable(job) or source.lost:
            return ()
        target = self._target(view, job, source)
        if target is source:
            return (self._stay(view, job, source, "Algorithm 4: its own node is among those with the lowest score"),)
        pays = with_specon.pays(view, job, target, self.state.count(target))
        return (self._move(view, job, source, target, offset),) if pays else ()

    def _move(self, view: ClusterView, job: Job, source: Node, target: Node, offset: int) -> c.MigrationPlanned:
        plan = c.MigrationPlanned(
            plan=f"move-{offset}",
            job=job.name,
            incarnation=job.incarnation,
            source=source.name,
            target=target.name,
            kind=c.MoveKind.REALLOCATION,
            because=msgspec.structs.replace(
                self._because(view, job, source, "Algorithm 4: the lowest score, then the least use"),
                move_ms=view.move_ms(job, source.name, target.name),
            ),
        )
        self.state.add(plan.plan, job, source.name, target.name)
        return plan

    def _target(self, view: ClusterView, job: Job, source: Node) -> Node:
        """The first node in the order of score, use and name that has room; the source where it is as good."""
        own = score(view, source, self.state)
        for node in by_score(view, self.state):
            if score(view, node, self.state) >= own:
                break
            if self.state.no_room(job, node) is None:
                return node
        return source

    def _stay(self, view: ClusterView, job: Job, source: Node, rule: str) -> c.StayDecided:
        return c.StayDecided(
            job=job.name,
            incarnation=job.incarnation,
            node=source.name,
            because=self._because(view, job, source, rule),
        )

    def _because(self, view: ClusterView, job: Job, source: Node, rule: str) -> c.Because:
        others = (node for node in by_score(view, self.state) if node is not source)
        considered = [
            seen(view, node, self.state, _why_out(job, node, self.state))
            for node in itertools.islice(others, NODES_NAMED - 1)
        ]
        bisect.insort_left(considered, seen(view, source, self.state), key=lambda node: node.score)
        return c.Because(rule=rule, nodes=tuple(considered), growing=source.growing)


def _why_out(job: Job, node: Node, pending: Pending) -> str:
    """Why a node is excluded, as a decision names it; empty where it is not."""
    refusal = pending.no_room(job, node)
    return "" if refusal is None else room_sentence(refusal, job.spec.chief_requests, node, node.name)
