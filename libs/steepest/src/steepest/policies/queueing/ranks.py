"""The queue policies by name: in which order waiting jobs are placed.

It owns the names, which ``QueueParameters.policy`` holds, and their ranks; a job with a lower rank is placed first. A rank
is a function of the job alone, of what does not change while it waits, so that an order by ranks can be kept up to date.
Between jobs of equal rank the one that was submitted first is first.

* ``fifo``: by submission.
* ``priority``: by ``JobSpec.priority``, the highest first.
* ``srtf``, shortest remaining time first: by the steps that are left and the pace measured when the job ran last. Then
  come jobs of which only the steps are known, because they were announced; the fewest first. Jobs of which
  neither is known come last. (The baseline of the same name knows each length: :mod:`steepest_lab.baselines.shortest`.)
* ``predicted``: by ``JobSpec.priority``, then by the predicted remaining time; jobs of which it is unknown come last.
* ``sjf``, shortest job first: by the run time that was predicted of the whole job, likewise.
* ``tiresias``: least attained service, in levels (Tiresias, NSDI 2019, §3.2): a job's service is the time for which it held
  GPUs, times their number; jobs below the first limit of ``QueueParameters.service_s`` are first, then those below the
  second. Of jobs without GPUs, CPU cores are counted. (Its baseline: :mod:`steepest_lab.baselines.tiresias`.)
* ``fair``: the jobs of the user with the least decayed use (:mod:`steepest.view.queue_use`); of one user, by
  ``JobSpec.priority``. Use changes while jobs wait, so it is no part of a rank: orders are kept by user, and :func:`turn`
  says which user is first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

import msgspec

from steepest.describe.units import span
from steepest.events.parameters import QueueParameters
from steepest.view.cluster_view import ClusterView
from steepest.view.progress import steps_left
from steepest.view.queue_use import user_account
from steepest.view.state import Job

Rank = tuple[int, ...]

PACES = 2
"""Reports from which on a pace can be computed."""

USERS_NAMED = 4
"""Further users whose use is named to people, the largest."""


class QueuePolicy(msgspec.Struct, frozen=True):
    """A policy, its rule in words, and whether the use of users comes before the rank."""

    rank: Callable[[Job, QueueParameters], Rank]
    rule: str
    by_user: bool = False


def _fifo(_: Job, __: QueueParameters) -> Rank:
    return ()


def _priority(job: Job, _: QueueParameters) -> Rank:
    return (-job.spec.priority,)


def _srtf(job: Job, _: QueueParameters) -> Rank:
    left, recent = steps_left(job), job.progress.history.recent
    if left is None:
        return (2, 0)
    if len(recent) < PACES:
        return (1, left)
    (began_ms, began_step), (last_ms, last_step) = recent[0][:2], recent[-1][:2]
    return (0, left * (last_ms - began_ms) // (last_step - began_step))


def _predicted(job: Job, _: QueueParameters) -> Rank:
    left = None if job.forecast is None else job.forecast.predicted.remaining
    return (-job.spec.priority, 1, 0) if left is None else (-job.spec.priority, 0, left.p50)


def _sjf(job: Job, _: QueueParameters) -> Rank:
    whole = None if job.forecast is None else job.forecast.predicted.total or job.forecast.predicted.remaining
    return (1, 0) if whole is None else (0, whole.p50)


def _tiresias(job: Job, parameters: QueueParameters) -> Rank:
    return (service_level(job.service_ms / 1000, parameters.service_s),)


def service_level(service_s: float, limits_s: Sequence[float]) -> int:
    """The level of attained service: how many limits it has reached (Tiresias, NSDI 2019, §3.2)."""
    return bisect_right(limits_s, service_s)


QUEUE_POLICIES: Mapping[str, QueuePolicy] = {
    "fifo": QueuePolicy(_fifo, "fifo: in the order of submission"),
    "priority": QueuePolicy(_priority, "priority: the most urgent first"),
    "srtf": QueuePolicy(_srtf, "srtf: the shortest remaining time first"),
    "predicted": QueuePolicy(_predicted, "predicted: the shortest predicted remaining time first"),
    "sjf": QueuePolicy(_sjf, "sjf: the shortest predicted run time first"),
    "tiresias": QueuePolicy(_tiresias, "tiresias: the least attained service first, in levels"),
    "fair": QueuePolicy(_priority, "fair: the user with the least decayed use first", by_user=True),
}


def queue_policy(name: str) -> QueuePolicy:
    """The policy of that name; where there is none, ``fifo``, whose rule says so."""
    found = QUEUE_POLICIES.get(name)
    if found is not None:
        return found
    usual = QUEUE_POLICIES["fifo"]
    return QueuePolicy(usual.rank, f"{usual.rule} (no queue policy is named {name[:40]!r})")


def turn(view: ClusterView, accounts: Sequence[str]) -> float:
    """What comes before the ranks of the jobs of these accounts: the use of their user where the policy counts it."""
    by_user = queue_policy(view.parameters.queueing.policy).by_user
    return view.jobs.use.used_by(user_account(accounts)) if by_user else 0.0


def rule_for(view: ClusterView, job: Job) -> str:
    """The rule of a pool's queue in words, with what a job's user and the others have used where that counts."""
    policy = queue_policy(view.parameters.queueing.policy)
    if not policy.by_user:
        return policy.rule
    mine, use = user_account(job.accounts), view.jobs.use
    others = sorted((one for one in view.state.used if one != mine), key=lambda one: (-use.used_by(one), one))
    shown = {one: one.partition(" ")[2] or "unknown users" for one in (mine, *others[:USERS_NAMED])}
    used = (f"{name} {span(round(1000 * use.used_by(one)))}" for one, name in shown.items())
    return f"{policy.rule} (core time used: {', '.join(used)})"
