"""Plans that a decider has made and not read back yet, laid over the view.

A decider makes a plan at one position of the log and meets it again some records later, valid or void. In between its
view does not hold the plan, so two requests at neighbouring positions would both take the same hole. This overlay closes
the gap; being a function of the log alone, it is the same in every replay.
"""

from __future__ import annotations

import msgspec

from steepest.events.common import Resources
from steepest.policies.unread import AwaitsDecisions
from steepest.view.state import Job, Node
from steepest.view.validity import NoRoom, no_room


class PendingPlan(msgspec.Struct, frozen=True):
    """One plan under way: its job goes from ``source`` (None: from the queue) to ``target``."""

    job: str
    source: str | None
    target: str
    requests: Resources
    category_index: int


class PendingNode(msgspec.Struct):
    """What all plans under way change of a node.

    Attributes:
        plans: How many take from it or give to it.
        taken: What they reserve on it.
        replicas: By how much they change its count of each category, in the order PC, WC, CC.
    """

    plans: int = 0
    taken: Resources = Resources()
    replicas: list[int] = msgspec.field(default_factory=lambda: [0, 0, 0])


class Pending(AwaitsDecisions):
    """The plans that a decider waits to read back.

    Attributes:
        plans: By their ids.
        jobs: The plan under way of each job.
        nodes: The nodes that a plan under way takes from or gives to.
    """

    plans: dict[str, PendingPlan] = msgspec.field(default_factory=dict)
    jobs: dict[str, str] = msgspec.field(default_factory=dict)
    nodes: dict[str, PendingNode] = msgspec.field(default_factory=dict)

    def add(self, plan: str, job: Job, source: str | None, target: str) -> None:
        """A plan was just made."""
        made = self.plans[plan] = PendingPlan(job.name, source, target, job.spec.requests, job.category_index)
        self.jobs[job.name] = plan
        self._apply(made, 1)

    def read_back(self, plan: str) -> None:
        """The plan stands in the log; from here on the view knows what became of it."""
        made = self.plans.pop(plan, None)
        if made is None:
            return
        del self.jobs[made.job]
        self._apply(made, -1)

    def concerns(self, job: Job) -> bool:
        """Whether a plan for the job is under way."""
        return job.name in self.jobs

    def free(self, node: Node) -> Resources:
        """What is free on a node once all plans under way hold their places."""
        change = self.nodes.get(node.name)
        return node.free if change is None else node.free - change.taken

    def no_room(self, job: Job, node: Node) -> NoRoom | None:
        """Why a replica of a job has no room on a node once all plans under way hold their places; None if it has."""
        wanted = job.spec.requests
        if refusal := no_room(wanted, node):
            return refusal
        return None if wanted.fits(self.free(node)) else NoRoom.PLAN_UNDER_WAY

    def replicas(self, node: Node) -> tuple[int, int, int]:
        """Replicas of each category on a node once all plans under way are valid, in the order PC, WC, CC.

        A job whose growth is unknown is in none of them, and no plan is made for it while it runs.
        """
        progressing, watched, converged = node.replicas
        change = self.nodes.get(node.name)
        if change is None:
            return progressing, watched, converged
        more = change.replicas
        return progressing + more[0], watched + more[1], converged + more[2]

    def count(self, node: Node) -> int:
        """|w| of a node once all plans under way are valid."""
        return sum(self.replicas(node)) + node.unknown

    def _apply(self, plan: PendingPlan, sign: int) -> None:
        """Lay a plan over its nodes (``sign`` 1), or take it off again (−1)."""
        target = self.nodes.setdefault(plan.target, PendingNode())
        target.taken = target.taken + plan.requests if sign > 0 else target.taken - plan.requests
        for name, change in ((plan.target, sign), (plan.source, -sign)):
            if name is not None:
                node = self.nodes.setdefault(name, PendingNode())
                node.replicas[plan.category_index] += change
                node.plans += sign
                if not node.plans:
                    del self.nodes[name]
