"""How one node's CPU is divided among its jobs, and which limits bring that about. Pure; O(n log n) for n jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from steepest.events import cluster as c
from steepest.events.parameters import SteepestParameters
from steepest.max_min import max_min
from steepest.policies.steepest.must_run import EQUAL, MustRun, Promise, must_run

LEAST_ROOM = 0.01
"""Cores for promises, where jobs of unknown size take all of a node."""

GIVES_BACK_S = 10.0
"""In how many seconds a job of unknown size gives back what it got before that was known."""

LEAST_LIMIT_M = 10
"""No limit is below 1 % of a core."""

UNKNOWN_LEFT = 60.0
"""Core-seconds that a job of unknown size is taken to need at least; one that has used more, as much again."""

ENOUGH = 0.05
"""Cores; a job that gets its demand but for this is not limited."""

SLACK = 0.1
"""Share of a node that may idle, or be lacking, before limits that have just changed change again."""


class JobOnNode(msgspec.Struct, kw_only=True):
    """A job on a node, or on its way there: what is known of it, and what it is to have.

    CPU is in cores, work in core-seconds, times are counted seconds. Of a gang, it is its replicas on that node.

    Attributes:
        demand: CPU that it can use here.
        elsewhere: CPU that it can use on the largest node.
        unknown: Whether it has had the time to announce a total, none is believed, and other jobs of its model do not say
            how large it is, or it has used more than they did. Until then, and until steps were measured, its size is None
            as well.
        size: The whole job; None: unknown.
        left: Until it ends; None: unknown.
        used: Work so far.
        fair_end_s: Its end under fair sharing; None: nothing says when.
        due_s: Its promised end; None: nothing is promised.
        index: What work for it is worth (:func:`steepest.policies.steepest.learning.worth`).
        deadline_s: When its user wants it to have ended; None: its user does not say.
        priority: Its urgency: of two jobs, what is to spare goes to the more urgent one.
        fair_rate: What the fair copy of a job of unknown size gets now; None: it has no copy.
        ahead: Work that a job of unknown size has got more than its fair copy, and gives back.
        ends: Whether it has done its last step, and evaluates, saves or exits.
        young: Whether it just began, and its speed or its demand was never measured, imports included: it runs ahead.
        steady: Whether it must not be limited now, because it is moved.
        free: Whether it may move: it can be saved, has no plan, and has not moved recently.
        rate: CPU that it is to have.
        must: CPU of it that cannot wait.
        limit_m: The limit that brings it about, in millicores; None: none.
    """

    name: str
    demand: float
    elsewhere: float = math.inf
    unknown: bool = False
    size: float | None = None
    left: float | None = None
    used: float = 0.0
    fair_end_s: float | None = None
    due_s: float | None = None
    index: float = 0.0
    deadline_s: float | None = None
    priority: int = 0
    fair_rate: float | None = None
    ahead: float = 0.0
    ends: bool = False
    young: bool = False
    steady: bool = False
    free: bool = False
    rate: float = 0.0
    must: float = 0.0
    limit_m: int | None = None

    @property
    def backlog(self) -> float:
        """Work that it still needs, or is taken to need."""
        return max(UNKNOWN_LEFT, self.used) if self.left is None else self.left

    def owed(self, part: float) -> float:
        """CPU that a job of unknown size gets before others: its fair part, else an equal one, less what it gives back."""
        fair = part if self.fair_rate is None else self.fair_rate
        return max(0.0, min(fair - self.ahead / GIVES_BACK_S, self.demand))

    def pressing(self, fair: float, now_s: float) -> float:
        """CPU of its plan that cannot wait: of one that is measured, all; of one of unknown size, at most a fair part."""
        if self.young:
            return self.rate
        return min(self.rate, fair if self.left is None else max(self.must, self.needs(now_s)))

    def needs(self, now_s: float) -> float:
        """Cores with which it would meet its deadline; 0 where it has none, or one that is met anyway or cannot be met."""
        if self.left is None or self.deadline_s is None or (self.fair_end_s or math.inf) <= self.deadline_s:
            return 0.0
        seconds = self.deadline_s - now_s
        return self.left / seconds if seconds * self.demand >= self.left else 0.0

    def standing(self, at_ms: int, now_s: float) -> c.FairStanding:
        """It as a plan explains it."""

        def wall_ms(counted_s: float | None) -> int | None:
            return None if counted_s is None else max(0, at_ms + round((counted_s - now_s) * 1000))

        return c.FairStanding(
            job=self.name,
            cpu_m=round(self.rate * 1000),
            demand_m=round(self.demand * 1000),
            must_m=round(self.must * 1000),
            left_ms=None if self.left is None else round(self.left * 1000),
            fair_end_ms=wall_ms(self.fair_end_s),
            due_ms=wall_ms(self.due_s),
            index=None if self.size is None else round(self.index, 9),
        )


def plan_node(cores: float, jobs: Sequence[JobOnNode], parameters: SteepestParameters, now_s: float = 0.0) -> None:
    """Divide a node: unknown jobs fairly, a floor for all, what must run, the young, deadlines, then by falling index.

    A job of unknown size gets its fair part, just that, and comes last for what is to spare: who says more never has less.
    Where these parts exceed the node, because a job is here whose copy has ended, all such jobs yield alike.

    A promised job can be on a node where it has no copy: it moved, or its copy has ended. The fair parts of jobs of unknown
    size then fill the node. Where they leave too little for the promises, each is at most an equal part of the node.

    A job that ends gets an equal part first.

    What is to spare goes to the most urgent jobs first. Of promises that are due in the same slot, that of the job where
    work is worth most is kept first.

    A deadline is met from what fair ends leave to spare, the one first that needs least: it makes no other job late.

    Args:
        cores: The node's CPU.
        jobs: All that run on it; the plan is in them.
        parameters: Of the policy.
        now_s: Counted time.
    """
    for job in jobs:
        job.rate, job.must, job.limit_m = 0.0, 0.0, None
    unknown = [job for job in jobs if job.left is None]
    if len(unknown) == len(jobs):  # the operating system shares fairly already
        return
    slot_s, part = parameters.slot_ms / 1000, cores / len(jobs)
    free = cores

    def give(job: JobOnNode, cpu: float) -> None:
        nonlocal free
        more = max(0.0, min(cpu, job.demand - job.rate, free))
        job.rate += more
        free -= more

    for job in jobs:
        give(job, part if job.ends else 0.0)
        job.must = job.rate
    promises = [
        (job, Promise(left, job.demand, job.due_s - now_s))
        for job in jobs
        if job.left is not None and job.due_s is not None and (left := job.left - slot_s * job.must) > 0
    ]
    owed = [job.owed(part) for job in unknown]
    parts, needed = _beside_unknown(cores, free, part, owed, [each for _, each in promises], parameters=parameters)
    for job, cpu in zip(unknown, parts, strict=True):
        give(job, cpu)
    for job in jobs:
        give(job, parameters.floor * part - job.rate)
    first_due = sorted(
        zip(promises, needed.now, strict=True),
        key=lambda one: (-one[0][0].priority, one[0][1].due_s // slot_s, -one[0][0].index, one[0][0].name),
    )
    for (job, _), work in first_due:
        job.must = min(job.demand, job.must + work / slot_s)
        give(job, work / slot_s)
    needs = {job.name: job.needs(now_s) for job in jobs}
    for job in sorted(jobs, key=lambda job: (not job.young, -job.priority, needs[job.name], -job.index, job.name)):
        give(job, job.demand if job.young else max(0.0, needs[job.name] - job.rate))
    for job in sorted(jobs, key=lambda job: (-job.priority, -job.index, job.name)):
        give(job, 0.0 if job.left is None else job.demand)
    rest = max_min(free, [job.demand - job.rate for job in unknown])
    for job, more in zip(unknown, rest, strict=True):
        give(job, more)
    set_limits(cores, jobs)


def _beside_unknown(
    cores: float,
    free: float,
    part: float,
    owed: Sequence[float],
    promises: Sequence[Promise],
    *,
    parameters: SteepestParameters,
) -> tuple[Sequence[float], MustRun]:
    """CPU of the jobs of unknown size, and the work that must run beside them.

    Each gets what it is owed; if promises cannot be kept then, at most ``part``, an equal part of the node.
    """
    least, slot_s = max(parameters.floor * cores, LEAST_ROOM), parameters.slot_ms / 1000
    parts = max_min(free, owed)
    needed = must_run(promises, max(cores - sum(parts), least), slot_s)
    if needed.late > EQUAL and max(parts, default=0.0) > part:
        parts = max_min(free, [min(cpu, part) for cpu in owed])
        needed = must_run(promises, max(cores - sum(parts), least), slot_s)
    return parts, needed


def keep_limits(cores: float, jobs: Sequence[JobOnNode], limits_m: Mapping[str, int | None], now_s: float) -> None:
    """Plan the limits in force in place of new ones, if they still do.

    They do if they leave at most ``SLACK`` of the node more idle or to jobs of unknown size, and each job lacks at most
    that much of what cannot wait. Where the node cannot give that to all, it counts only for jobs that are young or of
    unknown size: else each plan would serve others.

    Args:
        cores: The node's CPU.
        jobs: As :func:`plan_node` has planned them.
        limits_m: Of each, the limit in force of all its processes here, in millicores; None: none.
        now_s: Counted time.
    """
    if all(job.limit_m is None for job in jobs):
        return
    now_m = {job.name: None if job.steady else limits_m[job.name] for job in jobs}
    caps = [job.demand if (m := now_m[job.name]) is None else min(job.demand, m / 1000) for job in jobs]
    rates, slack = max_min(cores, caps), SLACK * cores
    can_keep_all = sum(job.must for job in jobs) <= cores
    lacks = any(
        job.pressing(cores / len(jobs), now_s) - rate > slack
        for job, rate in zip(jobs, rates, strict=True)
        if can_keep_all or job.left is None or job.young
    )
    less = [job.rate - rate for job, rate in zip(jobs, rates, strict=True)]
    of_known = sum(one for job, one in zip(jobs, less, strict=True) if job.left is not None)
    if lacks or max(sum(less), of_known) > slack:
        return
    for job, rate in zip(jobs, rates, strict=True):
        job.rate, job.limit_m = rate, now_m[job.name]


def set_limits(cores: float, jobs: Sequence[JobOnNode]) -> None:
    """Limit those that are to have less than they can use, where all want more than there is."""
    if len(jobs) < 2 or sum(job.demand for job in jobs) <= cores:  # noqa: PLR2004 - one has nothing to share
        return
    for job in jobs:
        if not job.steady and job.rate < job.demand - ENOUGH:
            job.limit_m = max(LEAST_LIMIT_M, round(job.rate * 1000))
