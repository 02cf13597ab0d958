"""What is known of a running job at one moment: its size, what is left, its promise, and what work for it is worth."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.parameters import SteepestParameters
from steepest.policies.steepest.learning import worth
from steepest.policies.steepest.learning_history import FIRST, LearningHistory, LossCourse
from steepest.policies.steepest.node_plan import JobOnNode, JobShare
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.view.progress import (
    course,
    cpu_ms_before_steps,
    cpu_ms_left,
    cpu_ms_of_all_steps,
    cpu_ms_per_step,
    one_step,
    steps_measured,
)
from steepest.view.state import Job

LEAST_LEFT = 0.002
"""Share of a job's size that is left at least, while it runs."""

DOUBT = 0.25
"""A size that was measured over n steps is promised as if it had been n + DOUBT: a report is seen up to a step after it was
reached. Promises by sizes that proved too large came too late for those that proved smaller."""

ENDS = 0.1
"""A job that has used this share of its size since its last report, beyond what was left then, is not about to end. Until
then it evaluates, saves and exits."""


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A running job. Work is in core-seconds, times are counted seconds.

    Attributes:
        unknown: Whether it has had the time to announce a total, none is believed, and other jobs of its model do not say
            how large it is, or it has used more than they did. Until then, and until steps were measured, its size is None
            as well.
        size: The whole job; None: unknown.
        left: Until it ends; None: unknown.
        fair_end_s: Its end under fair sharing; None: nothing says when.
        due_s: Its promised end.
        index: What a core-second for it is worth.
        deadline_s: When its user wants it to have ended; None: its user does not say.
        priority: Its urgency; the higher, the more urgent.
        ends: Whether it has done its last step.
        ahead: Of unknown size: what it had got more than its fair copy when it proved to be that, as far as it has not given
            that back.
    """

    name: str
    demand: float
    unknown: bool = False
    size: float | None = None
    left: float | None = None
    fair_end_s: float | None = None
    due_s: float | None = None
    index: float = 0.0
    deadline_s: float | None = None
    priority: int = 0
    ends: bool = False
    ahead: float = 0.0

    def needs(self, now_s: float) -> float:
        """Cores with which it would meet its deadline; 0 where it has none, or one that is met anyway or cannot be met."""
        if self.left is None or self.deadline_s is None or (self.fair_end_s or math.inf) <= self.deadline_s:
            return 0.0
        seconds = self.deadline_s - now_s
        return self.left / seconds if seconds * self.demand >= self.left else 0.0

    def on_node(self, state: SteepestPlannerState, **more: Any) -> JobOnNode:
        """It as the plan of its node needs it; ``more``: further fields."""
        copy = state.fair.jobs.get(self.name)
        fair_rate = None if copy is None or self.left is not None else state.fair.rate(self.name)
        return self.as_on_node(state.now_s, fair_rate=fair_rate, **more)

    def as_on_node(self, now_s: float, **more: Any) -> JobOnNode:
        """What of it does not depend on how it stands to its copies; ``more``: fields that do."""
        return JobOnNode(
            name=self.name,
            left=self.left,
            demand=self.demand,
            due_s=None if self.due_s is None else self.due_s - now_s,
            index=self.index,
            needs=self.needs(now_s),
            priority=self.priority,
            ends=self.ends,
            ahead=self.ahead,
            **more,
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
    (step, total), of_each, left_ms, all_ms = (
        course(job),
        cpu_ms_per_step(job),
        cpu_ms_left(job),
        cpu_ms_of_all_steps(job),
    )
    fresh = running.is_fresh(parameters.young_ms / 1000, demand, now_s) and (of_each is None or running.used_before > 0)
    fresh = fresh or job.incarnation != running.incarnation
    ends = True
    if total is None and fresh:
        size, left = running.size, running.left
    elif total is None or left_ms is None or all_ms is None:
        size = left = None
    else:
        running.start = cpu_ms_before_steps(job) / 1000 or running.start
        size = running.start + all_ms / 1000
        left = left_ms / 1000 - (running.used_by(now_s) - running.used_reported)
        ends = left > -ENDS * size
        under_way = 0.0 if of_each is None or step == total else one_step(job) * of_each / 1000
        left = max(left, LEAST_LEFT * size, under_way / 2)
        running.size, running.left = size, left
    running.step_ms = of_each
    state.announced = state.announced or total is not None
    unknown = not ends or (total is None and not fresh)
    used, proved_wrong = running.used_by(now_s), unknown and (not ends or _announced(job))
    if unknown:
        size = state.learned.size(job.spec.model) if state.announced and not proved_wrong else None
        unknown = size is None or used >= size
        size = None if unknown else size
        left = None if size is None else max(size - used, LEAST_LEFT * size)
        running.size, running.left = size, left
    copy = state.fair.look(job.name, now_s)
    if not unknown:
        running.ahead = math.inf
    elif copy is not None:
        running.ahead = min(running.ahead, max(used - copy.used, 0.0))
    if copy is not None:
        taken = size if size is not None or unknown else copy.size
        if size is not None and total is not None:
            taken = size / (1 + DOUBT / max(steps_measured(job), 1.0))
        state.fair.know(job.name, taken, state.demand(running, state.fair.nodes[copy.node].cores), now_s)
        state.fair.look(job.name, now_s)
    return JobFacts(
        name=job.name,
        demand=demand,
        unknown=unknown,
        size=size,
        left=left,
        fair_end_s=None if copy is None else copy.ends_s,
        deadline_s=deadline_of(state, job),
        due_s=None if copy is None else copy.due_s(parameters.lateness),
        priority=job.spec.priority,
        ends=not unknown and total is not None and step == total,
        ahead=running.ahead if unknown and copy is not None else 0.0,
        index=0.0
        if size is None or left is None
        else worth(1 - left / size, left, parameters.learning_weight, shares_of(state.learned, running.losses, job)),
    )


def deadline_of(state: SteepestPlannerState, job: Job) -> float | None:
    """When a job's user wants it to have ended, in counted time; None: its user does not say."""
    deadline_ms = job.spec.deadline_ms
    return None if deadline_ms is None else state.now_s + (job.submitted_ms + deadline_ms - state.tick_ms) / 1000


def _announced(job: Job) -> bool:
    """Whether it, its log or its user ever named a total."""
    return any((job.progress.total, job.progress.epochs, job.spec.steps, job.spec.epochs))


def shares_of(learned: LearningHistory, losses: LossCourse, job: Job) -> tuple[float, ...]:
    """At which shares of its steps it may have learned most: as its model did here, else as losses say."""
    shares, (step, total) = learned.shares(job.spec.model), course(job)
    if shares is None and total:
        return (learned.expected(job.spec.model, losses, step or 0, total),)
    return shares or (FIRST,)
