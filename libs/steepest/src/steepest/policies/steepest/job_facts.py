"""What is known of a running job at one moment: its size, what is left, its promise, and what work for it is worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.parameters import SteepestParameters
from steepest.policies.steepest.learning import worth
from steepest.policies.steepest.learning_history import FIRST, LossCourse
from steepest.policies.steepest.managed_job import UNKNOWN_LEFT, ManagedJob
from steepest.policies.steepest.node_plan import JobOnNode, JobShare
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.view.progress import cpu_ms_before_steps, cpu_ms_left, cpu_ms_per_step, total_steps
from steepest.view.state import Job

COURSE_POINTS = 8
"""At how many times it is checked whether a job of unknown size keeps up with its fair copy."""

LEAST_LEFT = 0.002
"""Share of a job's size that is left at least, while it runs."""


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A running job. Work is in core-seconds, times are counted seconds.

    Attributes:
        unknown: Whether it has had the time to announce a total, none is believed, and other jobs of its model do not say
            how large it is, or it has used more than they did. Until then, and until
            steps were measured, its size is None as well.
        size: The whole job; None: unknown.
        left: Until it ends; None: unknown.
        fair_end_s: Its end under fair sharing; None: nothing says when.
        due_s: Its promised end.
        index: What a core-second for it is worth.
        deadline_s: When its user wants it to have ended; None: its user does not say.
        proved_wrong: Whether a total was announced and is not believed, most often because the job is past it.
        priority: Its urgency; the higher, the more urgent.
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
    proved_wrong: bool = False
    priority: int = 0

    def needs(self, now_s: float) -> float:
        """Cores with which it would meet its deadline; 0 where it has none, or one that is met anyway or cannot be met."""
        if self.left is None or self.deadline_s is None or (self.fair_end_s or math.inf) <= self.deadline_s:
            return 0.0
        seconds = self.deadline_s - now_s
        return self.left / seconds if seconds * self.demand >= self.left else 0.0

    def on_node(
        self, state: SteepestPlannerState, job: ManagedJob, *, young: bool, steady: bool, dues_s: Sequence[float]
    ) -> JobOnNode:
        """It as the plan of its node needs it; ``dues_s``: when the jobs of known size there are due."""
        copy = state.fair.jobs.get(self.name)
        behind = 0.0 if copy is None else copy.used - job.used_by(state.now_s)
        return self.as_on_node(
            state.now_s,
            fair_rate=None if copy is None or self.left is not None else state.fair.rate(self.name),
            owed=()
            if not self.unknown or self.proved_wrong
            else owed(
                lambda until_s: state.fair.course(self.name, until_s), job.used_by(state.now_s), dues_s, state.now_s
            ),
            behind=behind if self.unknown else max(behind, 0.0),
            young=young,
            steady=steady,
        )

    def as_on_node(self, now_s: float, **more: Any) -> JobOnNode:
        """What of it does not depend on how it stands to its copies; ``more``: fields that do."""
        return JobOnNode(
            name=self.name,
            left=self.left,
            demand=self.demand,
            due_s=None if self.due_s is None else self.due_s - now_s,
            index=self.index,
            needs=self.needs(now_s),
            proved_wrong=self.proved_wrong,
            priority=self.priority,
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
    total, of_each, left_ms = total_steps(job), cpu_ms_per_step(job), cpu_ms_left(job)
    fresh = job.incarnation != running.incarnation or now_s - running.since_s < parameters.young_ms / 1000
    if total is None and fresh:
        size, left = running.size, running.left
    elif total is None or of_each is None or left_ms is None or total == job.progress.step:
        size = left = None
    else:
        running.start = cpu_ms_before_steps(job) / 1000 or running.start
        size = running.start + total * of_each / 1000
        since_report = running.used_by(now_s) - running.used_reported
        left = max(left_ms / 1000 - since_report, LEAST_LEFT * size)
        running.size, running.left = size, left
    running.step_ms = of_each
    state.announced = state.announced or total is not None
    unknown = total is None and not fresh
    if unknown:
        size = state.learned.size(job.spec.model) if state.announced and not _announced(job) else None
        used = running.used_by(now_s)
        unknown = size is None or used >= size
        size = None if unknown else size
        left = None if size is None else max(size - used, LEAST_LEFT * size)
        running.size, running.left = size, left
    copy = state.fair.jobs.get(job.name)
    if copy is not None:
        taken = size if size is not None or unknown else copy.size
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
        proved_wrong=unknown and _announced(job),
        priority=job.spec.priority,
        index=(1 / max(running.used_by(now_s), UNKNOWN_LEFT) if unknown else 0.0)
        if size is None or left is None
        else worth(1 - left / size, left, parameters.learning_weight, shares_of(state, running.losses, job)),
    )


def deadline_of(state: SteepestPlannerState, job: Job) -> float | None:
    """When a job's user wants it to have ended, in counted time; None: its user does not say."""
    deadline_ms = job.spec.deadline_ms
    return None if deadline_ms is None else state.now_s + (job.submitted_ms + deadline_ms - state.tick_ms) / 1000


def owed(
    course: Callable[[Sequence[float]], Sequence[float]], used: float, dues_s: Sequence[float], now_s: float
) -> Sequence[tuple[float, float]]:
    """What a job of unknown size needs by the time at which others are due, so that it keeps up with its fair copy.

    Args:
        course: What the copy has got by some times (:meth:`FairPool.course`).
        used: What the job has got so far.
        dues_s: When jobs of known size are due, in counted time.
        now_s: Counted time.
    """
    later = [due_s for due_s in sorted(dues_s) if due_s > now_s]
    checked = later[:: len(later) // COURSE_POINTS + 1]
    found = []
    for due_s, work in zip(checked, course(checked), strict=False):
        if work > used:
            found.append((work - used, due_s - now_s))
            used = work
    return found


def _announced(job: Job) -> bool:
    """Whether it, its log or its user ever named a total."""
    return any((job.progress.total, job.progress.epochs, job.spec.steps, job.spec.epochs))


def shares_of(state: SteepestPlannerState, losses: LossCourse, job: Job) -> tuple[float, ...]:
    """At which shares of its steps it may have learned most: as its model did here, else as losses say."""
    shares, total = state.learned.shares(job.spec.model), total_steps(job)
    if shares is None and total:
        return (state.learned.expected(job.spec.model, losses, job.progress.step or 0, total),)
    return shares or (FIRST,)
