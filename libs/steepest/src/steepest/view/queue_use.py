"""What the jobs of each queue and user hold together, and what those of each user have used. It must never know limits.

What a user has used grows with what its jobs hold, a GPU like :data:`GPU_CORES` cores, and counts half after each
half-life, as in Slurm's multifactor priority.

A job holds all that a valid plan gives it from the plan's record on, also while the plan waits for room. One that is moved
or scaled holds the larger of what it has and what it gets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from steepest.events.common import Resources
from steepest.events.requests import JobSpec
from steepest.view.learned.user_use import UserUse
from steepest.view.orders.changes import Changes
from steepest.view.state import CLEARING, Job, Phase, Plan, ViewState

GPU_CORES = 16
"""A second of a GPU counts like this many seconds of a core."""

USERS_KEPT = 1_000
"""Users whose use is remembered; beyond that, the least use of one who holds nothing is forgotten."""


class QueueUse:
    """Sums by account (:func:`~steepest.events.parameters.accounts`, :func:`user_account`), kept as jobs change.

    Attributes:
        falls: The accounts whose jobs hold less than before.
    """

    def __init__(self, state: ViewState, jobs: Iterable[Job]) -> None:
        """Take over what these jobs hold, which changes nothing of what users have used."""
        self.falls: Changes[str] = Changes()
        self._state = state
        self._jobs: dict[str, Resources] = {}
        self._accounts: dict[str, Resources] = {}
        for job in jobs:
            self._change(job, settles=False)

    def of(self, account: str) -> Resources:
        """What the jobs of an account hold."""
        return self._accounts.get(account, Resources())

    def used_by(self, account: str) -> float:
        """What a user's jobs have used by now, in core-seconds; of a queue it is not counted."""
        known = self._state.used.get(account)
        if known is None:
            return 0.0
        half_life_ms, held = self._state.parameters.queueing.half_life_ms, self.of(account)
        decay = math.exp2((known.counted_ms - self._state.counted_ms) / half_life_ms)
        cores = (held.cpu_m + GPU_CORES * held.all_gpus_m) / 1000
        return known.core_s * decay + cores * half_life_ms / 1000 / math.log(2) * (1 - decay)

    def settle(self, accounts: Iterable[str] = ()) -> None:
        """From here on these users hold something else; without any, use is counted by other rules."""
        used = self._state.used
        for account in tuple(accounts) or tuple(used):
            used[account] = UserUse(self.used_by(account), self._state.counted_ms)
        idle = (account for account in used if account not in self._accounts)
        if len(used) > USERS_KEPT and (least := min(idle, key=self.used_by, default=None)) is not None:
            del used[least]

    def of_job(self, job: Job) -> Resources:
        """What a job holds."""
        return self._jobs.get(job.name, Resources())

    def update(self, job: Job) -> None:
        """A job may hold more or less than before."""
        self._change(job, settles=True)

    def _change(self, job: Job, *, settles: bool) -> None:
        running, known = job.phase is Phase.RUNNING, job.name in self._jobs
        if running is known and not (running and job.spec.is_gang):
            return  # a job of one replica holds the same for as long as it runs
        before = self.of_job(job)
        now = _by_plan(job, self._state.plans.get(job.plan or ""))
        if now == before:
            return
        user = user_account(job.accounts)
        if settles:
            self.settle((user,))
        self._jobs[job.name] = now
        if now == Resources():
            del self._jobs[job.name]
        for account in dict.fromkeys((*job.accounts, user)):
            if not before.fits(now):
                self.falls.note(account)
            total = self._accounts[account] = self.of(account) + now - before
            if total == Resources():
                del self._accounts[account]


def user_account(accounts: Sequence[str]) -> str:
    """Of a job's accounts, where its user's use is counted; all jobs of unknown users have one, which has no limits."""
    return next((one for one in accounts if one.startswith("user ")), "user ")


def holdings(spec: JobSpec, sizes: Sequence[int] = ()) -> Resources:
    """What a job holds with this number of replicas of each role; empty: with all that it names."""
    held = Resources()
    for role, count in zip(spec.all_roles, sizes or spec.counts(), strict=True):
        held += role.requests.of_a_replica.times(count)
    return held


def _by_plan(job: Job, plan: Plan | None) -> Resources:
    if job.phase is not Phase.RUNNING:
        return Resources()
    if not job.spec.is_gang or plan is None or plan.kind in CLEARING:
        return holdings(job.spec, job.running_sizes)
    has = holdings(job.spec, plan.source_sizes if plan.sources else job.running_sizes)
    return has.larger(holdings(job.spec, plan.sizes)) if plan.targets else has
