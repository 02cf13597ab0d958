"""What is known of a running job at one moment: its size, what is left, its promise, and what work for it is worth."""

from __future__ import annotations

import math

from steepest.events.parameters import SteepestParameters
from steepest.policies.steepest.learning import worth
from steepest.policies.steepest.learning_history import FIRST, LearningHistory, LossCourse, usual
from steepest.policies.steepest.node_plan import JobOnNode
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.view.progress import (
    course,
    cpu_ms_before_steps,
    cpu_ms_left,
    cpu_ms_of_all_steps,
    cpu_ms_per_step,
    one_step,
)
from steepest.view.state import Job

LEAST_LEFT = 0.002
"""Share of a job's size that is left at least, while it runs."""

ENDS = 0.1
"""A job that has used this share of its size since its last report, beyond what was left then, is not about to end. Until
then it evaluates, saves and exits."""


def facts_of(state: SteepestPlannerState, parameters: SteepestParameters, job: Job, cores: float) -> JobOnNode:
    """What is known of a running job now; the fair pool learns it too."""
    running, now_s = state.running[job.name], state.now_s
    demand = state.demand(running, cores)
    (step, total), of_each = course(job), cpu_ms_per_step(job)
    left_ms, all_ms = cpu_ms_left(job), cpu_ms_of_all_steps(job)
    running.total = None if job.progress.steps_doubted else total or running.total
    overrun = state.learned.overrun(running.overrun) if total is None else None
    if overrun is not None and running.total and step and of_each:
        total = math.ceil(overrun * running.total)
        left_ms = round((total - step) * of_each)
        all_ms = left_ms + step * of_each
    young_s, moved = parameters.young_ms / 1000, running.used_before > 0
    is_fresh, is_paced = running.used_by(now_s) - running.used_before < young_s * demand, moved or of_each is not None
    is_measured = is_paced and (running.demand is not None or now_s - running.began_s >= young_s)
    fresh = (is_fresh and (moved or of_each is None)) or job.incarnation != running.incarnation
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
    used = running.used_by(now_s)
    announced = any((job.progress.total, job.progress.epochs, job.spec.steps, job.spec.epochs))
    if unknown:
        size = usual(state.learned.sizes, job.spec.model) if state.announced and ends and not announced else None
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
        state.fair.know(job.name, taken, state.demand(running, state.fair.nodes[copy.node].cores), now_s)
        state.fair.look(job.name, now_s)
    return JobOnNode(
        name=job.name,
        demand=demand,
        elsewhere=state.demand(running, state.fair.largest),
        used=running.used,
        rate=running.rate,
        unknown=unknown,
        size=size,
        left=left,
        fair_end_s=None if copy is None else copy.ends_s,
        deadline_s=deadline_of(state, job),
        due_s=None if copy is None else copy.due_s(parameters.lateness),
        priority=job.spec.priority,
        ends=not unknown and total is not None and step == total,
        young=is_fresh and not is_measured,
        ahead=running.ahead if unknown and copy is not None else 0.0,
        index=0.0
        if size is None or left is None
        else worth(1 - left / size, left, parameters.learning_weight, shares_of(state.learned, running.losses, job)),
    )


def deadline_of(state: SteepestPlannerState, job: Job) -> float | None:
    """When a job's user wants it to have ended, in counted time; None: its user does not say."""
    deadline_ms = job.spec.deadline_ms
    return None if deadline_ms is None else state.now_s + (job.submitted_ms + deadline_ms - state.tick_ms) / 1000


def shares_of(learned: LearningHistory, losses: LossCourse, job: Job) -> tuple[float, ...]:
    """At which shares of its steps it may have learned most: as its model did here, else as losses say."""
    shares, (step, total) = learned.shares(job.spec.model), course(job)
    if shares is None and total:
        return (learned.expected(job.spec.model, losses, step or 0, total),)
    return shares or (FIRST,)
