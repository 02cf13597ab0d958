"""Plans that a decider has made and not read back yet, laid over the view.

A decider makes a plan at one position of the log and meets it again some records later, valid or void. In between its
view does not hold the plan, so two requests at neighbouring positions would both take the same hole. This overlay closes
the gap; being a function of the log alone, it is the same in every replay.
"""

from __future__ import annotations

import msgspec

from steepest.events.common import Resources
from steepest.view.state import Job, Node


class PendingPlan(msgspec.Struct, frozen=True):
    """One plan under way: its job goes from ``source`` (None: from the queue) to ``target``."""

    job: str
    source: str | None
    target: str
    requests: Resources
    category_index: int


class Pending(msgspec.Struct):
    """The plans that a decider waits to read back, by plan."""

    plans: dict[str, PendingPlan] = {}

    def add(self, plan: str, job: Job, source: str | None, target: str) -> None:
        """A plan was just made."""
        self.plans[plan] = PendingPlan(job.name, source, target, job.spec.requests, job.category_index)

    def read_back(self, plan: str) -> None:
        """The plan stands in the log; from here on the view knows what became of it."""
        self.plans.pop(plan, None)

    def concerns(self, job: Job) -> bool:
        """Whether a plan for the job is under way."""
        return any(plan.job == job.name for plan in self.plans.values())

    def nodes(self) -> frozenset[str]:
        """The nodes that a plan under way takes from or gives to; for membership only."""
        return frozenset(node for plan in self.plans.values() for node in (plan.source, plan.target) if node)

    def free(self, node: Node) -> Resources:
        """What is free on a node once all plans under way hold their places."""
        free = node.free
        for plan in self.plans.values():
            if plan.target == node.name:
                free -= plan.requests
        return free

    def replicas(self, node: Node) -> tuple[int, int, int]:
        """Replicas of each category on a node once all plans under way are valid, in the order PC, WC, CC."""
        counts = list(node.replicas)
        for plan in self.plans.values():
            if plan.target == node.name:
                counts[plan.category_index] += 1
            if plan.source == node.name:
                counts[plan.category_index] -= 1
        return counts[0], counts[1], counts[2]

    def count(self, node: Node) -> int:
        """|w| of a node once all plans under way are valid."""
        return sum(self.replicas(node)) if self.plans else node.count
