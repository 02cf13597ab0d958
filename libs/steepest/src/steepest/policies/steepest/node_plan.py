"""How one node's CPU is divided among its jobs, and which limits bring that about. Pure; O(n log n) for n jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from steepest.events.parameters import SteepestParameters
from steepest.max_min import max_min
from steepest.policies.steepest.must_run import Promise, must_run

GIVES_BACK_S = 10.0
"""In how many seconds a job of unknown size gives back what it got before that was known."""

LEAST_LIMIT_M = 10
"""No limit is below 1 % of a core."""

ENOUGH = 0.05
"""Cores; a job that gets its demand but for this is not limited."""


class JobOnNode(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan needs to know of a job. CPU is in cores, work in core-seconds, times in seconds from now.

    Attributes:
        left: Work until it ends; None: unknown.
        demand: CPU that it can use.
        due_s: When it is due; None: nothing is promised.
        index: What work for it is worth (:func:`steepest.policies.steepest.learning.worth`).
        needs: CPU with which it meets its user's deadline, which it would miss under fair sharing; else 0.
        priority: Its urgency: of two jobs, what is to spare goes to the more urgent one.
        fair_rate: What the fair copy of a job of unknown size gets now; None: it has no copy.
        ahead: Work that a job of unknown size has got more than its fair copy, and gives back.
        ends: Whether it has done its last step, and evaluates, saves or exits.
        young: Whether it just began and its speed or its demand was never measured.
        steady: Whether it must not be limited now, because it is moved.
    """

    name: str
    left: float | None
    demand: float
    due_s: float | None = None
    index: float = 0.0
    needs: float = 0.0
    priority: int = 0
    fair_rate: float | None = None
    ahead: float = 0.0
    ends: bool = False
    young: bool = False
    steady: bool = False


class JobShare(msgspec.Struct):
    """What a job is to have.

    Attributes:
        rate: Cores.
        must: Cores of it that cannot wait.
        limit_m: The limit that brings it about, in millicores; None: none.
    """

    rate: float = 0.0
    must: float = 0.0
    limit_m: int | None = None


def plan_node(cores: float, jobs: Sequence[JobOnNode], parameters: SteepestParameters) -> dict[str, JobShare]:
    """Divide a node: unknown jobs fairly, a floor for all, what must run, the young, deadlines, then by falling index.

    A job of unknown size gets its fair part, just that, and comes last for what is to spare: who says more never has less.
    Where these parts exceed the node, because a job is here whose copy has ended, all such jobs yield alike.

    A job that is late has ended in the virtual pool, where those of unknown size then have its part too, also new ones of
    which nothing is known yet. It gets an equal part of the node first, or they would leave it none. So does one that ends.

    What is to spare goes to the most urgent jobs first.

    A deadline is met from what fair ends leave to spare, the one first that needs least: it makes no other job late.

    Args:
        cores: The node's CPU.
        jobs: All that run on it.
        parameters: Of the policy.
    """
    shares = {job.name: JobShare() for job in jobs}
    if all(job.left is None for job in jobs):  # the operating system shares fairly already
        return shares
    slot_s = parameters.slot_ms / 1000
    free = cores

    def give(job: JobOnNode, cpu: float) -> None:
        nonlocal free
        share = shares[job.name]
        more = max(0.0, min(cpu, job.demand - share.rate, free))
        share.rate += more
        free -= more

    unknown = [job for job in jobs if job.left is None]
    for job in _served_first(jobs):
        give(job, cores / len(jobs))
        shares[job.name].must = shares[job.name].rate
    fair = [cores / len(jobs) if job.fair_rate is None else job.fair_rate for job in unknown]
    owed = [max(0.0, rate - job.ahead / GIVES_BACK_S) for job, rate in zip(unknown, fair, strict=True)]
    for job, cpu in zip(unknown, max_min(free, owed), strict=True):
        give(job, cpu)
    for job in jobs:
        give(job, parameters.floor * cores / len(jobs) - shares[job.name].rate)
    promised = _promised(jobs, shares, slot_s)
    claimed = sum(shares[job.name].rate for job in unknown)
    room = max(cores - claimed, parameters.floor * cores)
    needed = must_run([Promise(left, job.demand, due_s) for job, left, due_s in promised], room, slot_s)
    first_due = sorted(
        zip(promised, needed.now, strict=True), key=lambda one: (-one[0][0].priority, one[0][2], one[0][0].name)
    )
    for (job, _, _), work in first_due:
        share = shares[job.name]
        share.must = min(job.demand, share.must + work / slot_s)
        give(job, work / slot_s)
    for job in sorted(jobs, key=lambda job: (not job.young, -job.priority, job.needs, -job.index, job.name)):
        give(job, job.demand if job.young else max(0.0, job.needs - shares[job.name].rate))
    for job in sorted(jobs, key=lambda job: (-job.priority, -job.index, job.name)):
        give(job, 0.0 if job.left is None else job.demand)
    rest = max_min(free, [job.demand - shares[job.name].rate for job in unknown])
    for job, more in zip(unknown, rest, strict=True):
        give(job, more)
    _limit(cores, jobs, shares)
    return shares


def _promised(
    jobs: Sequence[JobOnNode], shares: Mapping[str, JobShare], slot_s: float
) -> Sequence[tuple[JobOnNode, float, float]]:
    """What is promised beyond the shares that jobs have already: work, and in how many seconds it is due."""
    return [
        (job, left, job.due_s)
        for job in jobs
        if job.left is not None and job.due_s is not None and (left := job.left - slot_s * shares[job.name].must) > 0
    ]


def _served_first(jobs: Sequence[JobOnNode]) -> Sequence[JobOnNode]:
    """The jobs that end, and those that are late where a job of unknown size is beside them."""
    beside_unknown = any(job.left is None for job in jobs)
    late = [job for job in jobs if beside_unknown and job.left is not None and job.due_s is not None and job.due_s <= 0]
    return [*late, *(job for job in jobs if job.ends and job not in late)]


def _limit(cores: float, jobs: Sequence[JobOnNode], shares: dict[str, JobShare]) -> None:
    """Limit those that are to have less than they can use, where all want more than there is."""
    if len(jobs) < 2 or sum(job.demand for job in jobs) <= cores:  # noqa: PLR2004 - one has nothing to share
        return
    for job in jobs:
        share = shares[job.name]
        if not job.steady and share.rate < job.demand - ENOUGH:
            share.limit_m = max(LEAST_LIMIT_M, round(share.rate * 1000))
