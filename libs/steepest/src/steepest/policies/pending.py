"""Plans that a decider has made and not read back yet, as an overlay on the view.

A decider makes a plan at one position of the log and reads it back some records later, valid or void. In between, its view
does not contain the plan, so two requests at neighbouring positions would both use the same free resources. This overlay
closes the gap; it is a function of the log alone, and so the same in every replay.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from steepest.events.cluster import Because, PlacementPlanned
from steepest.events.common import Resources
from steepest.policies.placement.gangs import GangPlaces
from steepest.policies.unread import AwaitsDecisions
from steepest.view.state import Job, Node
from steepest.view.validity import NoRoom, no_room


class PendingPlaces(msgspec.Struct, frozen=True):
    """Places of replicas that a pending plan takes on a node."""

    node: str
    replicas: int
    requests: Resources


class PendingPlan(msgspec.Struct, frozen=True):
    """A pending plan: its job moves from ``source`` (None: from the queue) to its targets.

    Attributes:
        targets: The places that it takes, one entry a node, in the order of the first replica on each.
        accounts: Whose limits count what it takes; a job that moves takes nothing more.
    """

    job: str
    source: str | None
    targets: tuple[PendingPlaces, ...]
    category_index: int
    accounts: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """The node of its first replica."""
        return self.targets[0].node


class PendingNode(msgspec.Struct):
    """The changes of all pending plans to a node.

    Attributes:
        plans: Number of plans with this node as source or target.
        taken: The resources that they reserve on it.
        replicas: Their changes to its number of replicas of each category, in the order PC, WC, CC.
    """

    plans: int = 0
    taken: Resources = Resources()
    replicas: list[int] = msgspec.field(default_factory=lambda: [0, 0, 0])


class Pending(AwaitsDecisions):
    """The plans that a decider has not read back yet.

    Attributes:
        plans: Plan id to plan.
        jobs: Job to its pending plan.
        nodes: The nodes that are source or target of a pending plan.
        held: What the plans take, by account.
        turn: How often the first waiting jobs were looked at.
    """

    plans: dict[str, PendingPlan] = msgspec.field(default_factory=dict)
    jobs: dict[str, str] = msgspec.field(default_factory=dict)
    nodes: dict[str, PendingNode] = msgspec.field(default_factory=dict)
    held: dict[str, Resources] = msgspec.field(default_factory=dict)
    turn: int = 0

    @property
    def under_way(self) -> dict[str, Any]:
        """The fields that a decider keeps when it is switched off, because its decisions are still on their way."""
        return {name: getattr(self, name) for name in Pending.__struct_fields__}

    def add(self, plan: str, job: Job, source: str | None, target: str) -> None:
        """Add a plan that was just made."""
        self._add(plan, job, source, (PendingPlaces(target, 1, job.spec.chief_requests),))

    def place(
        self, plan: str, job: Job, places: GangPlaces, because: Because, after: tuple[str, ...] = ()
    ) -> PlacementPlanned:
        """Make a plan that gives a job these places, after the plans that make room for it, and add it."""
        replicas = Counter(places.nodes)
        amounts = _amounts(job, places)
        self._add(plan, job, None, tuple(PendingPlaces(node, replicas[node], one) for node, one in amounts.items()))
        return PlacementPlanned(
            plan=plan,
            job=job.name,
            incarnation=job.incarnation,
            nodes=places.nodes,
            sizes=() if not job.spec.is_gang or places.sizes == job.spec.counts() else places.sizes,
            after=after,
            because=because,
        )

    def add_scaling(self, plan: str, job: Job, places: GangPlaces) -> None:
        """Add a plan that was just made for a gang that runs: what it takes on each node beyond what the gang has there."""
        before, after = _amounts(job, GangPlaces(job.running_on, job.running_sizes)), _amounts(job, places)
        more = {node: (amount - before.get(node, Resources())).positive for node, amount in after.items()}
        taken = [PendingPlaces(node, 0, amount) for node, amount in more.items() if amount != Resources()]
        self._add(plan, job, None, tuple(taken))

    def add_suspension(self, plan: str, job: Job) -> None:
        """Add a plan that was just made and that gives a job's places back, which nothing may count on before it is over."""
        self._add(plan, job, None, ())

    def _add(self, plan: str, job: Job, source: str | None, targets: tuple[PendingPlaces, ...]) -> None:
        accounts = job.accounts if source is None else ()
        made = self.plans[plan] = PendingPlan(job.name, source, targets, job.category_index, accounts)
        self.jobs[job.name] = plan
        self._apply(made, 1)

    def read_back(self, plan: str) -> None:
        """Remove a plan that is in the log: from here on the view contains its effect."""
        made = self.plans.pop(plan, None)
        if made is None:
            return
        del self.jobs[made.job]
        self._apply(made, -1)

    def concerns(self, job: Job) -> bool:
        """Whether the job has a pending plan."""
        return job.name in self.jobs

    def free(self, node: Node) -> Resources:
        """The free resources of a node if all pending plans are valid."""
        change = self.nodes.get(node.name)
        return node.free if change is None else node.free - change.taken

    def no_room(self, job: Job, node: Node) -> NoRoom | None:
        """Why a replica of a job has no room on a node once all plans under way hold their places; None if it has."""
        wanted = job.spec.chief_requests
        if refusal := no_room(wanted, node, job.node_rule):
            return refusal
        return None if wanted.fits(self.free(node)) else NoRoom.PLAN_UNDER_WAY

    def replicas(self, node: Node) -> tuple[int, int, int]:
        """Replicas of each category on a node if all pending plans are valid, in the order PC, WC, CC.

        A job whose growth is unknown counts in none of them; no plan is made for it while it runs. One that has left its
        node since its plan was made is not taken off twice.
        """
        progressing, watched, converged = node.replicas
        change = self.nodes.get(node.name)
        if change is None:
            return progressing, watched, converged
        more = change.replicas
        return max(0, progressing + more[0]), max(0, watched + more[1]), max(0, converged + more[2])

    def count(self, node: Node) -> int:
        """|w| of a node if all pending plans are valid."""
        return sum(self.replicas(node)) + node.unknown

    def coming(self, account: str) -> Resources:
        """The resources that pending plans will add to an account, if all of them are valid."""
        return self.held.get(account, Resources())

    def _apply(self, plan: PendingPlan, sign: int) -> None:
        """Apply a plan to its nodes (``sign`` 1), or revert it (−1)."""
        for places in plan.targets:
            node = self.nodes.setdefault(places.node, PendingNode())
            node.taken = node.taken + places.requests if sign > 0 else node.taken - places.requests
            self._count(places.node, plan, sign * places.replicas, sign)
            taken = msgspec.structs.replace(places.requests, replicas=places.replicas).times(sign)
            for account in plan.accounts:
                self._hold(account, taken)
        if plan.source is not None:
            self._count(plan.source, plan, -sign, sign)

    def _hold(self, account: str, more: Resources) -> None:
        held = self.coming(account) + more
        if held == Resources():
            self.held.pop(account, None)
        else:
            self.held[account] = held

    def _count(self, name: str, plan: PendingPlan, replicas: int, sign: int) -> None:
        node = self.nodes.setdefault(name, PendingNode())
        node.replicas[plan.category_index] += replicas
        node.plans += sign
        if not node.plans:
            del self.nodes[name]


def _amounts(job: Job, places: GangPlaces) -> dict[str, Resources]:
    return places._replace(sizes=job.spec.counts(places.sizes)).amounts(job.spec.all_roles)
