"""When the running jobs of a node end, if it goes on dividing its CPU as it does now. Pure.

A job's own pace says when it ends while nothing else runs. Where jobs share a node, each end gives CPU to the others, and
under the policy ``steepest`` jobs wait for one another: the division is played forward until all known jobs have ended.
Its rule is the planner's there, with the dues and indices of the node's newest plan; else it is max-min fairness. Where
limits yield, CPU that would be idle goes to limited jobs too. New jobs, moves, and later losses are not foreseen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from weakref import WeakKeyDictionary

import msgspec

from steepest.events.parameters import SteepestParameters
from steepest.events.plans import FairStanding
from steepest.max_min import max_min
from steepest.view.cluster_view import ClusterView
from steepest.view.progress import (
    OF_AN_EPOCH,
    RECENT_STEPS,
    TimeLeft,
    course,
    cpu_ms_left,
    cpu_ms_per_step,
    one_step,
    steps_left,
    time_left,
)
from steepest.view.state import Job, Node

SLOTS = 40
"""In how many spans the work of a node is played forward, and one more for each end."""

MOST_JOBS = 100
"""A node with more jobs is not played forward."""

FULL = 0.85
"""A node has no CPU beyond what its jobs use if these use this share of it."""

SLACK = 1.04
"""Factor for due times. The dues of all jobs together fill a node, so by small errors of what is left they could not be met,
and the plan would be another one."""

YIELDS = 1.1
"""Limits yield on a node whose jobs use this many times what the newest plan lets them use."""

ONE_CORE = 1.0

TINY = 1e-6
"""Core-seconds: less is nothing."""
LEARNED = 1.02
"""Factor by which the index of a job that has learned most may be above the value of its end, by rounding."""

Rates = Callable[[Sequence["_Course"], float], Sequence[float]]
"""The CPU of each job from a time on, in cores."""

_newest: WeakKeyDictionary[ClusterView, tuple[int, int, dict[str, Mapping[str, float]]]] = WeakKeyDictionary()


class _Course(msgspec.Struct):
    """A job that is played forward. Work in core-seconds, CPU in cores, times in seconds from now.

    Attributes:
        left: Until its end; None: unknown.
        demand: What it can use.
        believed: What the planner takes that for: of a job that was always limited, it cannot know.
        to_learn: Work until it has learned most, as its index says; 0: it has.
    """

    name: str
    left: float | None
    demand: float
    priority: int = 0
    due_s: float | None = None
    believed: float = 0.0
    to_learn: float = 0.0
    done: float = 0.0

    def index(self, learning: float) -> float:
        """What a core-second for it is worth (:func:`steepest.policies.steepest.learning.worth`, with one share)."""
        if not self.left:
            return 0.0
        if self.done >= self.to_learn:
            return (1 - learning) / self.left
        return max(learning / (self.to_learn - self.done), 1 / self.left)


def remaining(view: ClusterView, job: Job, now_ms: int) -> TimeLeft | None:
    """The time until a job's end: PickyMan's prediction if it plans, else by its pace and its node's other jobs."""
    from steepest.policies.pickyman.running import predicted_left  # noqa: PLC0415 - few commands need it

    if view.parameters.pickyman.on and (predicted := predicted_left(job, view.counted_ms)) is not None:
        return predicted
    by_pace = time_left(job) or _since_first(job)
    if not job.alive or len(set(job.nodes)) != 1 or by_pace is None:
        return by_pace
    ends_s = _ends_on(view, job.nodes[0], now_ms).get(job.name)
    if ends_s is None or not by_pace.p50:
        return by_pace
    middle = 1000 * ends_s
    return TimeLeft(
        round(middle), round(middle * by_pace.low / by_pace.p50), round(middle * by_pace.high / by_pace.p50)
    )


def _since_first(job: Job) -> TimeLeft | None:
    """Before the pace of the last minutes is known: by the steps since the first report, one more or less."""
    (step, _), left, progress, one = course(job), steps_left(job), job.progress, one_step(job)
    seen_ms = progress.seen_counted_ms
    if left is None or step is None or seen_ms is None or not job.alive or not progress.history.recent:
        return None
    at_ms, first, _ = progress.history.recent[0]
    done, took_ms = step - first, seen_ms - at_ms
    if done < RECENT_STEPS * one or took_ms <= 0:
        return None
    return TimeLeft(*(round(left * took_ms / steps) for steps in (done, done + one, done - one)))


def _ends_on(view: ClusterView, name: str, now_ms: int) -> Mapping[str, float]:
    """When the jobs of a node end, remembered until the view or the time changes."""
    position, at_ms, known = _newest.get(view, (-1, -1, {}))
    if (position, at_ms) != (view.position, now_ms):
        known = {}
        _newest[view] = (view.position, now_ms, known)
    if name not in known:
        known[name] = ends(view, view.nodes[name], now_ms) if name in view.nodes else {}
    return known[name]


def ends(view: ClusterView, node: Node, now_ms: int) -> Mapping[str, float]:
    """In how many seconds the jobs of a node end of which that is known; none where their own paces say it.

    Work: at most 40 plans of the node, and one for each job.
    """
    jobs = [view.jobs[name] for name in node.jobs if name in view.jobs]
    jobs = [job for job in jobs if job.alive and set(job.nodes) == {node.name}]
    if not 1 < len(jobs) <= MOST_JOBS:
        return {}
    if view.parameters.steepest.on:
        heard_s = (view.counted_ms - node.seen_counted_ms) / 1000  # what is left of the jobs is known of then
        found = _under_steepest(jobs, node, view.parameters.steepest, now_ms - round(1000 * heard_s))
        return {name: max(at_s - heard_s, 0.0) for name, at_s in found.items()}
    if any(job.limit is not None or job.spec.chief_requests.all_gpus_m for job in jobs):
        return {}
    paces = {job.name: _pace(job) for job in jobs}
    cores = sum(paces.values())
    if cores < FULL * node.capacity.cpu_m / 1000:
        return {}
    fair = [_Course(name=job.name, left=_left(job), demand=_usable(job, paces[job.name])) for job in jobs]
    return _played(fair, lambda left, _: max_min(cores, [one.demand for one in left]), cores)


def _under_steepest(
    jobs: Sequence[Job], node: Node, parameters: SteepestParameters, now_ms: int
) -> Mapping[str, float]:
    from steepest.policies.steepest.node_plan import JobOnNode, plan_node  # noqa: PLC0415 - for crowded nodes alone

    cores = sum(one.cpu_m for one in node.standing) / 1000
    if cores <= 0 or not any(job.limit is not None and job.limit.cpu_m is not None for job in jobs):
        return {}
    standing = {one.job: one for one in node.standing}
    learning = parameters.learning_weight
    courses = [_course(job, standing.get(job.name), cores, learning, now_ms) for job in jobs]
    planned = sum(min(standing[one.name].cpu_m / 1000, one.demand) for one in courses if one.name in standing)
    yields = node.used.cpu_m / 1000 > YIELDS * planned

    def rates(left: Sequence[_Course], at_s: float) -> Sequence[float]:
        on_node = [
            JobOnNode(
                name=one.name,
                left=one.left,
                demand=one.believed if yields else one.demand,
                priority=one.priority,
                due_s=None if one.due_s is None else SLACK * one.due_s - at_s,
                index=one.index(learning),
            )
            for one in left
        ]
        plan_node(cores, on_node, parameters)
        gets = [min(one.demand, each.rate) for one, each in zip(left, on_node, strict=True)]
        idle = cores - sum(gets) if yields else 0.0
        more = max_min(max(idle, 0.0), [one.demand - has for one, has in zip(left, gets, strict=True)])
        return [has + extra for has, extra in zip(gets, more, strict=True)]

    return _played(courses, rates, cores)


def _course(job: Job, standing: FairStanding | None, cores: float, learning: float, now_ms: int) -> _Course:
    left = _left(job)
    if standing is None:
        able = min(cores, _usable(job, 0.0))
        return _Course(name=job.name, left=left, demand=able, believed=able, priority=job.spec.priority)
    then = None if standing.left_ms is None else standing.left_ms / 1000
    left = then if left is None else left
    index = standing.index or 0.0
    still = bool(left) and bool(then) and index * (then or 0.0) > LEARNED * (1 - learning)
    return _Course(
        name=job.name,
        left=left,
        demand=min(standing.demand_m / 1000, _usable(job, _pace(job))),
        believed=standing.demand_m / 1000,
        priority=job.spec.priority,
        due_s=None if standing.due_ms is None else (standing.due_ms - now_ms) / 1000,
        to_learn=max(0.0, learning / index - ((then or 0.0) - (left or 0.0))) if still else 0.0,
    )


def _usable(job: Job, pace: float) -> float:
    """Cores that it can use at least: a thread for each core that it requests, and what it was seen to use."""
    return max(ONE_CORE, pace, job.spec.chief_requests.cpu_m / 1000) if job.progress.cpu_ms else pace


def _pace(job: Job) -> float:
    """The cores that it used in the last minutes; 0 where that was not measured."""
    recent = [one for one in job.progress.history.recent if one[2] is not None]
    if len(recent) < 2 or recent[-1][0] <= recent[0][0]:  # noqa: PLR2004 - a span has two ends
        return 0.0
    return ((recent[-1][2] or 0) - (recent[0][2] or 0)) / (recent[-1][0] - recent[0][0])


def _left(job: Job) -> float | None:
    """Core-seconds until its end, without those that it used since its newest step, as far as that was not over."""
    left_ms, of_each, reached = cpu_ms_left(job), cpu_ms_per_step(job), job.progress.history.reached
    if left_ms is None or of_each is None:
        return None
    one = of_each * (OF_AN_EPOCH if job.progress.history.by_epochs else 1)
    begun = 0 if reached is None else min((job.progress.cpu_ms or 0) - reached[1], one)
    return max(left_ms - begun, of_each) / 1000


def _played(courses: Sequence[_Course], rates: Rates, cores: float) -> Mapping[str, float]:
    """Let time pass until the jobs of known size have ended; when each of them did."""
    slot_s = max(1.0, sum(one.left or 0.0 for one in courses) / cores / SLOTS)
    going, at_s, ended = list(courses), 0.0, dict[str, float]()
    while any(one.left is not None for one in going):
        rate = rates(going, at_s)
        spans = [one.left / each for one, each in zip(going, rate, strict=True) if one.left is not None and each > 0]
        if not spans:
            break
        is_crowded = sum(one.demand for one in going) > cores
        span_s = min(slot_s, *spans) if is_crowded else min(spans)
        at_s += span_s
        for one, each in zip(going, rate, strict=True):
            if one.left is not None:
                one.left, one.done = one.left - each * span_s, one.done + each * span_s
                if one.left <= TINY:
                    ended[one.name] = at_s
        going = [one for one in going if one.name not in ended]
    return ended
