"""The placer and the rebalancer without memory: each examines everything every time.

They are the reference for the real ones: both must always decide the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from tests.harness.system.driver import AT, DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import QueueParameters
from steepest.events.received import Received
from steepest.policies.decider import ClusterDecider
from steepest.policies.flowcon import with_specon
from steepest.policies.placement.gangs import GangPlaces, Sizes, choose
from steepest.policies.placement.placer import Placer, _may_place
from steepest.policies.placement.rejection import why_never_placed
from steepest.policies.placement.slots import Slots
from steepest.policies.queueing.ranks import queue_policy, turn
from steepest.policies.queueing.wish import wish_of
from steepest.policies.specon.rebalancer import Rebalancer, balance_factor
from steepest.runtime.decision_stream import MintedDecision
from steepest.runtime.engine import PoolEngine
from steepest.view.cluster_view import ClusterView
from steepest.view.movable import immovable
from steepest.view.places.node_rules import is_allowed
from steepest.view.places.queue_limits import Excess, excess
from steepest.view.state import Job, Node, Phase


class NaivePlacer(Placer):
    """Goes through the whole queue, and searches all nodes for each job."""

    def _place_at_once(self, job: Job, view: ClusterView, offset: int) -> Iterator[c.ClusterEvent]:
        if view.parameters.queueing.blocking:
            return self._place_waiting(view, offset)
        return self._place([job], view, offset)

    def _place_waiting(self, view: ClusterView, offset: int) -> Iterator[c.ClusterEvent]:
        rules: QueueParameters = view.parameters.queueing
        rank = queue_policy(rules.policy).rank
        waiting = [job for job in view.jobs if job.is_queued]
        return self._place(
            sorted(waiting, key=lambda job: (turn(view, job.accounts), rank(job, rules), job.submitted_offset)),
            view,
            offset,
        )

    def _place(self, jobs: Iterable[Job], view: ClusterView, offset: int) -> Iterator[c.ClusterEvent]:
        no_room: dict[object, None] = {}
        held_back: dict[str, None] = {}
        for job in jobs:
            if wish_of(job) in no_room or not _may_place(view, job) or self._awaits(job):
                continue
            if any(account in held_back for account in job.accounts):
                continue
            blocks, over = view.parameters.queueing.blocking, self._excess(view, job, job.spec.smallest)
            if over is not None:
                if blocks and not over.is_alone:
                    held_back[over.account] = None
                continue
            found = self._find(view, job)
            if found is not None:
                yield self._plan(view, job, found, offset)
                continue
            if not blocks:  # else the next one is looked at only behind one that is rejected, and is rejected too
                no_room[wish_of(job)] = None
            if why := why_never_placed(view, job):
                yield from self._announce(job, c.JobRejected(job=job.name, request=job.request, reason=why))
            elif blocks and self._would_have_room(view, job):
                return

    def _excess(self, view: ClusterView, job: Job, sizes: Sizes) -> Excess | None:
        def coming(account: str) -> Resources:
            jobs = [(view.jobs[plan.job], plan) for plan in self.state.plans.values() if plan.source is None]
            taken = [one for job, plan in jobs if account in job.accounts for one in plan.targets]
            return sum((msgspec.structs.replace(one.requests, replicas=one.replicas) for one in taken), Resources())

        return excess(view, job, sizes, coming)

    def _would_have_room(self, view: ClusterView, job: Job) -> bool:
        """Whether it fits the nodes that it may run on, were they empty."""
        wish, nodes = wish_of(job), [node for node in view.nodes if node.is_open]
        there = {node.name: node.capacity for node in nodes if is_allowed(wish.rule, node)}
        if wish.roles:
            return choose(wish.roles, Slots(there), first_node=wish.first_node) is not None
        return any(wish.first_node in {None, name} and wish.requests.fits(amount) for name, amount in there.items())

    def _find(self, view: ClusterView, job: Job) -> GangPlaces | None:
        if not job.spec.is_gang:
            node = self._node(view, job)
            return None if node is None else GangPlaces((node.name,), ())
        rule = job.spec.node_rule
        free = {node.name: self.state.free(node) for node in view.nodes if node.is_open and is_allowed(rule, node)}
        first_node = wish_of(job).first_node
        return choose(
            job.spec.all_roles,
            Slots(free),
            first_node=first_node,
            allows=lambda sizes: self._excess(view, job, sizes) is None,
        )


class NaiveRebalancer(Rebalancer):
    """Looks for a donor among all jobs, again for each worker."""

    def _moves(self, view: ClusterView, offset: int) -> Iterator[c.MigrationPlanned]:
        factor, made = balance_factor(view), 0
        for target in self._receivers(view, factor):
            while self.state.count(target) < factor and (job := self._first(view, target, factor)) is not None:
                yield self._move(view, job, target, factor, f"rebalance-{offset}-{made}")
                made += 1

    def _first(self, view: ClusterView, target: Node, factor: int) -> Job | None:
        free = self.state.free(target)
        converged = [
            job
            for job in view.jobs
            if job.phase is Phase.RUNNING
            and job.category is c.Category.CONVERGED
            and not (job.unknown or job.rebalanced)
        ]
        for job in sorted(converged, key=lambda job: (-job.converged_counted_ms, job.name)):
            source = view.nodes[job.nodes[0]] if job.nodes else None
            if (
                source is not None
                and source is not target
                and not source.lost
                and self.state.count(source) > factor
                and job.plan is None
                and immovable(job) is None
                and not self.state.concerns(job)
                and job.spec.requests.fits(free)
                and is_allowed(job.spec.node_rule, target)
                and with_specon.pays(view, job, target, self.state.count(target))
            ):
                return job
        return None


class DriverBesideNaive(DeciderDriver):
    """Deciders of a pool, whose placer and rebalancer are compared with the naive ones at every record."""

    def __init__(self, *deciders: ClusterDecider, **options: Any) -> None:
        """As :class:`DeciderDriver`; the naive deciders have their own engine and view."""
        kinds = {Placer: NaivePlacer, Rebalancer: NaiveRebalancer}
        naive: list[ClusterDecider] = [kinds[type(one)]() for one in deciders if type(one) in kinds]
        self._naive = PoolEngine(naive, AT, "pool")
        super().__init__(*deciders, **options)

    def step(self, received: Received[c.ClusterEvent]) -> Sequence[MintedDecision]:
        """The naive deciders' decisions are compared, and not appended."""
        minted = super().step(received)
        naive = [one.name for one in self._naive.deciders]
        assert [one for one in minted if one.id.decider in naive] == self._naive.step(received)
        return minted
