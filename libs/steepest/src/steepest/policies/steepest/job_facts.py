"""What is known of a running job at one moment: its size, what is left, its promise, and what work for it is worth."""

from __future__ import annotations

import math

import msgspec

from steepest.events import cluster as c
from steepest.events.parameters import SteepestParameters
from steepest.policies.steepest.learning import worth
from steepest.policies.steepest.learning_history import FIRST
from steepest.policies.steepest.managed_job import ManagedJob
from steepest.policies.steepest.node_plan import JobOnNode, JobShare
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.view.progress import cpu_ms_left, cpu_ms_per_step, total_steps
from steepest.view.state import Job

LEAST_LEFT = 0.002
"""Share of a job's size that is left at least, while it runs."""


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A running job. Work is in core-seconds, times are counted seconds.

    Attributes:
        size: The whole job; None: unknown.
        left: Until it ends; None: unknown.
        fair_end_s: Its end under fair sharing; None: nothing says when.
        due_s: Its promised end.
        index: What a core-second for it is worth; 0 where its size is unknown.
        deadline_s: When its user wants it to have ended; None: its user does not say.
    """

    name: str
    demand: float
    size: float | None = None
    left: float | None = None
    fair_end_s: float | None = None
    due_s: float | None = None
    index: float = 0.0
    deadline_s: float | None = None

    def needs(self, now_s: float) -> float:
        """Cores with which it would meet its deadline; 0 where it has none, or one that is met anyway or cannot be met."""
        if self.left is None or self.deadline_s is None or (self.fair_end_s or math.inf) <= self.deadline_s:
            return 0.0
        seconds = self.deadline_s - now_s
        return self.left / seconds if seconds * self.demand >= self.left else 0.0

    def on_node(self, state: SteepestPlannerState, job: ManagedJob, *, young: bool, steady: bool) -> JobOnNode:
        """It as the plan of its node needs it."""
        copy = state.fair.jobs.get(self.name)
        return JobOnNode(
            name=self.name,
            left=self.left,
            demand=self.demand,
            due_s=None if self.due_s is None else self.due_s - state.now_s,
            index=self.index,
            needs=self.needs(state.now_s),
            fair_rate=state.fair.rate(self.name) if self.left is None else 0.0,
            fair_over=copy is not None and copy.end_s is not None,
            behind=0.0 if copy is None else copy.used - job.used_by(state.now_s),
            young=young,
            steady=steady,
        )

    def standing(self, share: JobShare, at_ms: int, now_s: float) -> c.FairStanding:
        """It as a plan explains it."""

        def wall_ms(counted_s: float | None) -> int | None:
            return None if counted_s is None else max(0, at_ms + round((counted_s - now_s) * 1000))

        return c.FairStanding(
            job=self.name,
            cpu_m=round(share.rate * 1000),
            demand_m=round(self.demand * 1000),
            must_m=round(share.must * 1000),
            left_ms=None if self.left is None else round(self.left * 1000),
            fair_end_ms=wall_ms(self.fair_end_s),
            due_ms=wall_ms(self.due_s),
            index=None if self.size is None else round(self.index, 9),
        )


def facts_of(state: SteepestPlannerState, parameters: SteepestParameters, job: Job, cores: float) -> JobFacts:
    """What is known of a running job now; the fair pool learns it too."""
    running, now_s = state.running[job.name], state.now_s
    demand = state.demand(running, cores)
    total, of_each, left_ms = total_steps(job), cpu_ms_per_step(job), cpu_ms_left(job)
    if total is None or of_each is None or left_ms is None or total == job.progress.step:
        size = left = None
    else:
        size = total * of_each / 1000
        since_report = running.used_by(now_s) - running.used_reported
        left = max(left_ms / 1000 - since_report, LEAST_LEFT * size)
    running.step_ms = of_each
    copy = state.fair.jobs.get(job.name)
    if copy is not None:
        state.fair.know(job.name, size, state.demand(running, state.fair.nodes[copy.node].cores), now_s)
        state.fair.look(job.name, now_s)
    end_s = None if copy is None else copy.end_s if copy.end_s is not None else copy.forecast_s
    deadline_ms = job.spec.deadline_ms
    return JobFacts(
        name=job.name,
        demand=demand,
        size=size,
        left=left,
        fair_end_s=end_s,
        deadline_s=None if deadline_ms is None else now_s + (job.submitted_ms + deadline_ms - state.tick_ms) / 1000,
        due_s=None
        if end_s is None or copy is None
        else copy.began_s + (1 + parameters.lateness) * (end_s - copy.began_s),
        index=0.0
        if size is None or left is None
        else worth(1 - left / size, left, parameters.learning_weight, _shares(state, running, job)),
    )


def _shares(state: SteepestPlannerState, running: ManagedJob, job: Job) -> tuple[float, ...]:
    """At which shares of its steps it may have learned most: as its model did here, else as its own losses say."""
    shares, total = state.learned.shares(job.spec.model), total_steps(job)
    if shares is None and total:
        return (running.losses.expected(job.progress.step or 0, total),)
    return shares or (FIRST,)
