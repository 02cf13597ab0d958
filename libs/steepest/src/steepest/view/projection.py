"""The state of a pool, and the orders that are kept up to date with it.

It owns no rule and folds nothing: the ``fold_…`` modules change it, :class:`~steepest.view.cluster_view.ClusterView` calls
them in the log's order.
"""

from __future__ import annotations

from steepest.events.parameters import PoolParameters
from steepest.view.jobs import Jobs
from steepest.view.nodes import Nodes
from steepest.view.refusal import Refusal
from steepest.view.state import Job, Plan, PlanStatus, ViewState


class Projection:
    """The state of one pool as its log has left it.

    Attributes:
        state: All of it, as plain data.
        nodes: The nodes, in the orders that deciders ask for.
        jobs: The jobs, likewise.
        in_flight: The plans that are valid and not over.
        waiting: Those of them that wait for other plans to make room.
        newly_due: Plans that wait no longer since the newest record.
        avoiding: The jobs that stay away from a node because of a finding.
        over: The plans that are over or void and still remembered, oldest first.
        touched: The job that the newest record was about, if any.
        refused: Why the newest record is a void plan; None where it is none.
    """

    def __init__(self, state: ViewState | None = None) -> None:
        self.state = state or ViewState()
        self.nodes = Nodes(self.state.nodes, self.state.parameters.specon)
        self.jobs = Jobs(self.state)
        self.in_flight: dict[str, Plan] = {
            plan.id: plan for plan in self.state.plans.values() if plan.status is PlanStatus.IN_FLIGHT
        }
        self.waiting: dict[str, Plan] = {name: plan for name, plan in self.in_flight.items() if plan.waits}
        self.newly_due: list[Plan] = []
        self.avoiding: dict[str, Job] = {name: job for name, job in self.state.jobs.items() if job.avoids is not None}
        self.over: dict[str, None] = {plan: None for plan in self.state.plans if plan not in self.in_flight}
        self.touched: Job | None = None
        self.refused: Refusal | None = None

    @property
    def counted_ms(self) -> int:
        """The pool's counted time."""
        return self.state.counted_ms

    @property
    def parameters(self) -> PoolParameters:
        """The parameters in force."""
        return self.state.parameters

    def has(self, flag: int) -> bool:
        """Whether a behaviour flag is on."""
        return flag in self.state.flags

    @property
    def is_configured(self) -> bool:
        """Whether the first ``PoolConfigured`` is folded. A submission before it would count by no flag at all."""
        return self.state.reads > 0

    @property
    def position(self) -> int:
        """The offset of the next record to fold."""
        return self.state.position

    def plan_of(self, job: Job) -> Plan | None:
        """The plan in flight for a job."""
        return self.in_flight.get(job.plan) if job.plan else None

    def plan(self, plan: str) -> Plan | None:
        """A plan, also one that is over or void, as long as it is remembered."""
        return self.state.plans.get(plan)

    def move_ms(self, job: Job, source: str, target: str) -> int | None:
        """How long a move of a job would take, by those that were measured; None where too little is known. Work: O(1)."""
        saved = job.checkpoint
        return self.state.move_costs.predict(job.spec.model, source, target, saved.size_bytes if saved else 0)

    def find(self, name: str) -> Job | None:
        """The job that a record is about, which becomes ``touched``; None where it was never submitted."""
        self.touched = self.jobs.get(name)
        return self.touched
