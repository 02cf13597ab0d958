"""All that the steepest-planner remembers between records."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from steepest.events import cluster as c
from steepest.policies.pending import Pending
from steepest.policies.steepest.fair.fair_copies import LEAST_DEMAND
from steepest.policies.steepest.fair.fair_pool import FairPool
from steepest.policies.steepest.gangs.unmanaged_replicas import GangWork, UnmanagedReplicas
from steepest.policies.steepest.learning_history import LearningHistory, remember, usual
from steepest.policies.steepest.managed_job import FULL, ManagedJob
from steepest.policies.steepest.residences import Residence
from steepest.view.state import Job

KEPT = 50
"""The mean of measured demands forgets at this many."""

NEWEST = 0.5
"""Weight of the newest measurement of what a node gives that is short of CPU."""

RECOVERS_S = 1_800.0
"""Seconds in which what a node is taken to give would be what it declares, if it was not short: others may have left it."""


class SteepestPlannerState(Pending):
    """The state of the steepest-planner; empty while it is off.

    Attributes:
        on: Whether the policy is on.
        fair: The virtual fair pool.
        running: The jobs that train, by name.
        suspended: Those of them that are suspended.
        unmanaged: The replicas of jobs that are not managed, by job and node.
        gangs: The work of these jobs.
        gives: Cores that each node really gives, as far as is known, and when it was measured last.
        residences: Each node as it was planned last.
        learned: How long finished jobs ran, when they had learned most, and what jobs could use.
        announced: Whether a total of any job was ever believed. Before that, sizes of finished jobs count for nothing: where
            all sizes are such, jobs learn later than under fair sharing.
        due: When a node is planned next, in seconds of counted time; 0: at the next tick.
        stays: Until when the limits of a node stay, as long as they do, by node.
        tick_ms: The record time of the newest tick.
        now_s: The newest time that was used, which never falls.
        demands: Of how many jobs the demand was measured, at most ``KEPT``, and their mean.
        unlifted: Jobs that may still be limited although the policy is off.
    """

    on: bool = False
    fair: FairPool = msgspec.field(default_factory=FairPool)
    running: dict[str, ManagedJob] = msgspec.field(default_factory=dict)
    suspended: dict[str, None] = msgspec.field(default_factory=dict)
    unmanaged: dict[str, dict[str, UnmanagedReplicas]] = msgspec.field(default_factory=dict)
    gangs: dict[str, GangWork] = msgspec.field(default_factory=dict)
    gives: dict[str, tuple[float, float]] = msgspec.field(default_factory=dict)
    residences: dict[str, Residence] = msgspec.field(default_factory=dict)
    learned: LearningHistory = msgspec.field(default_factory=LearningHistory)
    announced: bool = False
    due: dict[str, float] = msgspec.field(default_factory=dict)
    stays: dict[str, float] = msgspec.field(default_factory=dict)
    tick_ms: int = 0
    now_s: float = 0.0
    demands: tuple[int, float] = (0, 0.0)
    unlifted: dict[str, None] = msgspec.field(default_factory=dict)

    def time_s(self, counted_ms: int, at_ms: int, period_ms: int) -> float:
        """Counted time of a record, in seconds: finer than ticks, and no clock that jumps moves it by more than a tick."""
        since_ms = min(max(at_ms - self.tick_ms, 0), period_ms) if self.tick_ms else 0
        self.now_s = max(self.now_s, (counted_ms + since_ms) / 1000)
        return self.now_s

    def limited(self, job: str) -> ManagedJob:
        """Where the limit of a job is remembered: of one that is not managed, on the first of its nodes here."""
        return self.running.get(job) or next(iter(self.unmanaged[job].values())).use

    def lift(self, job: Job, node: str, plan: str, why: str) -> Iterator[c.LimitsPlanned]:
        """A running job leaves its node: it has no limit from here on, so that its next step ends soon."""
        running = self.running[job.name]
        if running.limit_m is not None:
            running.limit_m = None
            yield c.LimitsPlanned(
                plan=plan,
                node=node,
                limits=(c.JobLimit(job.name, job.incarnation),),
                because=c.LimitsBecause(rule=why),
            )

    def deliver(self, node: str, declared: float, used: float, *, short: bool, limited: bool) -> float:
        """The jobs of a node used so many cores; ``short``: it had no more. Returns those that it is taken to give.

        That recovers only where it is all used: jobs that are ``limited`` to it, want more, and use less, found no more.
        """
        known, since_s = self.gives.get(node, (declared, self.now_s))
        recovers = 0.0 if limited and used < FULL * known else (self.now_s - since_s) / RECOVERS_S
        share = NEWEST if short else min(recovers, 1.0)
        gives = min(max(known + share * ((used if short else declared) - known), used), declared)
        self.gives[node] = (gives, self.now_s)
        return gives

    def learn_demand(self, job: ManagedJob) -> None:
        """The demand of another job was measured for the first time."""
        count, mean = min(self.demands[0] + 1, KEPT), self.demands[1]
        self.demands = count, mean + (job.cpu - mean) / count
        remember(self.learned.demands, job.model, job.cpu)

    def usual_demand(self, model: str) -> float:
        """Cores that a process of a job is taken to use that has not begun yet."""
        return usual(self.learned.demands, model) or self.demands[1] or self.fair.largest

    def demand(self, job: ManagedJob, cores: float, replicas: int = 1) -> float:
        """Cores that a job can use; while that never showed, each of its replicas as others of its model.

        Else it is halfway between the mean of all and the whole node, because jobs that can use the most never show it: with
        the mean alone, jobs that run beside few others were promised too little, and got it.
        """
        if job.rests > 1:
            return max(job.cpu, LEAST_DEMAND)
        (count, mean), known = self.demands, job.demand
        if known is None:
            known = replicas * (usual(self.learned.demands, job.model) or ((mean + cores) / 2 if count else cores))
        return max(min(max(known, job.most), cores), LEAST_DEMAND)
