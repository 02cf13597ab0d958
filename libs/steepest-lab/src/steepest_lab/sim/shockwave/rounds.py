"""The rules of Shockwave's and Gavel's simulator, worked out again: one kind of GPU, one GPU a server.

* A job runs for a round of 120 s, min(⌊rate · 120⌋, rest) steps. A round ends when the latest of its jobs does; the GPUs of
  one that ends earlier are idle until then.
* A job that was not in the round before loses 20 s, if its micro-task took more than 115 s, and never in the second round.
* A micro-task without a step and without time fails; five in a row end a job. So does a run of more than ``cap`` times its
  time alone.
* ρ is the completion time over the time alone times max(1, jobs in the trace / GPUs), and does not know a gang's size.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Protocol

import msgspec

from steepest_lab.sim.shockwave.jobs import RoundJob

ROUND_S = 120
RESTART_S = 20
LATE_S = 115
FAILURES = 5


class RoundPolicy(Protocol):
    """Chooses the jobs of each round."""

    def arrived(self, job: RoundJob, now_s: float) -> None:
        """A job is there."""

    def done(self, job: RoundJob, took_s: float) -> None:
        """A job's micro-task is over."""

    def gone(self, job: RoundJob, now_s: float) -> None:
        """A job has ended."""

    def choose(self, active: Sequence[RoundJob], now_s: float, gpus: int, *, changed: bool) -> Sequence[RoundJob]:
        """The jobs of the next round; ``changed``: whether jobs came, ended or have other batch sizes."""
        ...


class RoundFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a trace. Times are in seconds, shares in %."""

    makespan: float
    mean: float
    worst: float
    unfair: float
    restarts: float
    jct: tuple[float, ...]


def run_rounds(jobs: Sequence[RoundJob], gpus: int, policy: RoundPolicy, cap: float) -> RoundFigures:
    """Run all jobs to their ends."""
    queue = sorted(jobs, key=lambda job: (job.profile.submit_s, job.number))
    active: dict[int, RoundJob] = {}
    schedule: list[dict[int, None]] = []
    running: list[tuple[float, RoundJob, int]] = []
    now = start = 0.0
    end: float | None = None
    restarts = 0
    changed = False
    while running or queue or active:
        if running:
            start, end = (start if end is None else end), max(finish for finish, _, _ in running)
            now = end
        else:
            now = max(now, queue[0].profile.submit_s)
        before = schedule[-2] if len(schedule) > 1 else None
        for finish, job, planned in sorted(running, key=lambda one: (-one[0], one[1].number)):
            took, steps = finish - start, planned
            if len(schedule) != 1 and before is not None and job.number not in before:
                restarts += 1
                if took > LATE_S:
                    steps = int(steps * (took - RESTART_S) / took)
                    took -= RESTART_S
            is_over = _work(job, steps, took, cap)
            if steps > 0 or took > 0:
                policy.done(job, took)
            changed = job.rescale() or changed or is_over
            if is_over:
                job.end_s, job.rounds[1] = finish, len(schedule)
                del active[job.number]
                policy.gone(job, now)
        for job in active.values():
            job.observe()
        while queue and queue[0].profile.submit_s <= now:
            job = queue.pop(0)
            active[job.number], changed = job, True
            job.rounds[0] = len(schedule)
            policy.arrived(job, now)
        if not active:
            running, end = [], queue[0].profile.submit_s if queue else None
            continue
        chosen = policy.choose(list(active.values()), now, gpus, changed=changed)
        changed = changed and not policy_took(policy)
        schedule.append(dict.fromkeys(job.number for job in chosen))
        running = []
        for job in chosen:
            steps = min(int(job.rate * ROUND_S), job.total - job.steps)
            running.append((max(now, now + steps / job.rate), job, steps))
    jct = [job.end_s - job.profile.submit_s for job in jobs]
    rho = [one / (job.alone_s * max(1.0, len(jobs) / gpus)) for one, job in zip(jct, jobs, strict=True)]
    return RoundFigures(
        makespan=now,
        mean=statistics.fmean(jct),
        worst=max(rho),
        unfair=100 * statistics.fmean(one > 1 for one in rho),
        restarts=restarts / len(jobs),
        jct=tuple(jct),
    )


def policy_took(policy: RoundPolicy) -> bool:
    """Whether the policy has taken in the change that it was shown; one that reckons seldom takes it in later."""
    return getattr(policy, "took", True)


def _work(job: RoundJob, steps: int, took_s: float, cap: float) -> bool:
    """A micro-task is over; whether the job is."""
    job.ran_s += took_s
    if steps <= 0 and took_s <= 0:
        job.failures += 1
        return job.failures >= FAILURES
    job.failures = 0
    job.steps += steps
    return job.total <= job.steps or job.ran_s > int(int(job.alone_s) * cap)
