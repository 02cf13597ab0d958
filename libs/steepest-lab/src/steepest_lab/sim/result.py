"""Results of a simulation: what happened to each job, and the summary figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

LATE = 0.05
"""A job that ends later than by this share of its completion time is late."""


class JobResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one job. Times are seconds since the workload's start.

    Attributes:
        start_s: First start; None: it never ran.
        end_s: None: it did not finish.
        learned_s: When it had 90 % of the reduction of its loss; None: it did not, or it was not followed.
        first_node: Where it was placed first; empty: nowhere, or the policy names no nodes.
        outcome: ``finished``, or why it did not: ``rejected``, ``failed``, ``running``, ``waiting``.
    """

    name: str
    submit_s: float
    start_s: float | None = None
    end_s: float | None = None
    learned_s: float | None = None
    first_node: str = ""
    outcome: str = "finished"
    migrations: int = 0
    preemptions: int = 0

    @property
    def jct_s(self) -> float:
        """Job completion time: from submission to end.

        Raises:
            ValueError: The job has not ended.
        """
        if self.end_s is None:
            raise ValueError(f"job {self.name} has not ended")
        return self.end_s - self.submit_s


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run, in seconds; the object that ``steepest simulate --json`` prints.

    Attributes:
        jobs: Submitted.
        mean_jct: Mean job completion time over the jobs that finished; 0 if none did (so are the other means).
        p90_jct: Element ⌊n·0.9⌋, counted from 0, of the sorted completion times; the other quantiles likewise.
        mean_t90: Mean time from submission to 90 % of the reduction of a job's own loss, over the jobs of which it is
            known; None: it is known of none.
        left_out: Jobs that did not finish both in this run and in the one that it is compared with; None: there is no such
            run. The following figures are about the other jobs alone; None: there are none.
        late_share: Share of the jobs that ended more than ``LATE`` later than in the other run, as a share of their
            completion time there.
        late_worst: How much later the job ended that was delayed most, likewise.
        mean_jct_change: Change of the mean completion time, as a share of that in the other run: -0.25 is a quarter less.
            The other changes likewise.
        mean_t90_change: Over the jobs of which it is known in both.
        mean_wait: From submission to first start, over the jobs that started.
        makespan: The last end, from the workload's start.
        utilisation: Share of the cluster's GPU-seconds (CPU-seconds, where the jobs ask for no GPU) in use from the start
            to the makespan.
        events: Events that the simulation handled.
        deadlocked: Gangs of which some replicas hold places at the end, and the others never get any.
        scale_ups: How often a running gang got more replicas.
        scale_downs: How often one gave up some.
        partial_gang_ms_max: For how long a gang was in parts at most, from its first replica's start to its last one's.
        wall_seconds: Real time that the run took; the only figure that differs from run to run.
    """

    policy: str
    seed: int
    jobs: int
    finished: int
    mean_jct: float
    median_jct: float
    p90_jct: float
    p99_jct: float
    mean_t90: float | None
    left_out: int | None
    late_share: float | None
    late_worst: float | None
    mean_jct_change: float | None
    median_jct_change: float | None
    makespan_change: float | None
    mean_t90_change: float | None
    mean_wait: float
    makespan: float
    utilisation: float
    migrations: int
    preemptions: int
    deadlocked: int
    scale_ups: int
    scale_downs: int
    partial_gang_ms_max: int
    events: int
    wall_seconds: float


class SimulationResult(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one policy.

    Attributes:
        jobs: In the workload's order.
        used: Resource-seconds in use over the run, in the unit that ``capacity`` has.
        capacity: GPUs of the cluster, or its CPU in millicores where the jobs ask for no GPU.
        assumptions: What the run had to assume because its workload does not say it.
    """

    policy: str
    seed: int
    jobs: Sequence[JobResult]
    used: float
    capacity: float
    events: int
    wall_seconds: float
    assumptions: Sequence[str] = ()
    deadlocked: int = 0
    scale_ups: int = 0
    scale_downs: int = 0
    partial_gang_ms_max: int = 0

    def summary(self, other: SimulationResult | None = None) -> Summary:
        """Compute the summary figures; ``other``: the run of the same jobs that this one is compared with."""
        others = [] if other is None else other.jobs
        both, learned = _in_both(self.jobs, others, "end_s"), _in_both(self.jobs, others, "learned_s")
        later = [job.jct_s / other.jct_s - 1 for job, other in both if other.jct_s > 0]
        jcts, makespan, t90s = _jcts(self.jobs), _makespan(self.jobs), _t90s(self.jobs)
        waits = [job.start_s - job.submit_s for job in self.jobs if job.start_s is not None]
        return Summary(
            policy=self.policy,
            seed=self.seed,
            jobs=len(self.jobs),
            finished=len(jcts),
            mean_jct=_mean(jcts),
            median_jct=_quantile(jcts, 0.5),
            p90_jct=_quantile(jcts, 0.9),
            p99_jct=_quantile(jcts, 0.99),
            mean_t90=_mean(t90s) if t90s else None,
            left_out=None if other is None else len(self.jobs) - len(both),
            late_share=sum(one > LATE for one in later) / len(later) if later else None,
            late_worst=max(later) if later else None,
            mean_jct_change=_change(both, lambda jobs: _mean(_jcts(jobs))),
            median_jct_change=_change(both, lambda jobs: _quantile(_jcts(jobs), 0.5)),
            makespan_change=_change(both, _makespan),
            mean_t90_change=_change(learned, lambda jobs: _mean(_t90s(jobs))),
            mean_wait=_mean(waits),
            makespan=makespan,
            utilisation=self.used / (self.capacity * makespan) if self.capacity and makespan else 0.0,
            migrations=sum(job.migrations for job in self.jobs),
            preemptions=sum(job.preemptions for job in self.jobs),
            deadlocked=self.deadlocked,
            scale_ups=self.scale_ups,
            scale_downs=self.scale_downs,
            partial_gang_ms_max=self.partial_gang_ms_max,
            events=self.events,
            wall_seconds=self.wall_seconds,
        )


def _jcts(jobs: Sequence[JobResult]) -> list[float]:
    return sorted(job.jct_s for job in jobs if job.end_s is not None)


def _makespan(jobs: Sequence[JobResult]) -> float:
    return max((job.end_s for job in jobs if job.end_s is not None), default=0.0)


def _t90s(jobs: Sequence[JobResult]) -> list[float]:
    return [job.learned_s - job.submit_s for job in jobs if job.learned_s is not None]


def _in_both(jobs: Sequence[JobResult], others: Sequence[JobResult], known: str) -> list[tuple[JobResult, JobResult]]:
    """The jobs of which a time is known in both runs: means over different jobs are no comparison."""
    there = {job.name: job for job in others if getattr(job, known) is not None}
    return [(job, there[job.name]) for job in jobs if getattr(job, known) is not None and job.name in there]


def _change(
    pairs: Sequence[tuple[JobResult, JobResult]], figure: Callable[[Sequence[JobResult]], float]
) -> float | None:
    """A figure's change over the same jobs as a share of what it was; None where there are none, or it was 0."""
    now, before = figure([job for job, _ in pairs]), figure([other for _, other in pairs])
    return now / before - 1 if before else None


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _quantile(ascending: Sequence[float], q: float) -> float:
    return ascending[math.floor(len(ascending) * q)] if ascending else 0.0
