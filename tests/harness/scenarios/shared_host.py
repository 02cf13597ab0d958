"""A node that declares some CPU and gives some of it to jobs that could each use all; the steepest-planner limits them."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.harness.scenarios.folded_pool import FoldedPool, joined

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.policies.named import under
from steepest.policies.steepest.job_facts import facts_of
from steepest.policies.steepest.node_plan import JobOnNode
from steepest.policies.steepest.steepest_planner import SteepestPlanner
from steepest_lab.simulated.shares import share_out


class Trained(msgspec.Struct):
    """A job on the host; CPU times in milliseconds.

    Attributes:
        says: What its log names: ``step``, ``epoch`` or, of a silent one, ``nothing``.
        steps: How many it has, steps or epochs.
        start_ms: CPU time before its first step.
        exit_ms: And after its last one.
        total: What it announces; None: ``steps``.
        demand: Cores that it can use; None: all.
        used_ms: What it has used.
    """

    says: str
    steps: int
    step_ms: int = 500
    start_ms: int = 0
    exit_ms: int = 0
    total: int | None = None
    demand: float | None = None
    used_ms: float = 0.0

    @property
    def done(self) -> int:
        """Its step."""
        return max(0, min(self.steps, int(self.used_ms - self.start_ms) // self.step_ms))

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.used_ms >= self.start_ms + self.steps * self.step_ms + self.exit_ms

    def said(self) -> dict[str, Any]:
        """What its log names now."""
        done, total = self.done, self.steps if self.total is None else self.total
        if not done or self.says == "nothing":
            return {}
        return {"step": done, "total": total} if self.says == "step" else {"epoch": float(done), "epochs": float(total)}


class SharedHost(FoldedPool):
    """One node, ``n1``. Limits hold; if they yield, CPU that would be idle goes beyond them.

    Attributes:
        gives: The cores that the node gives; it declares ``cores``.
        limits: In force, in millicores.
        ended: The second in which each job ended.
    """

    def __init__(self, cores: float, gives: float | None = None, *, limited: bool = True, yields: bool = True) -> None:
        self.planner = SteepestPlanner()
        self.cores, self.gives, self.limited, self.yields = cores, cores if gives is None else gives, limited, yields
        self.trained: dict[str, Trained] = {}
        self.limits: dict[str, int | None] = {}
        self.ended: dict[str, int] = {}
        self.seconds = 0
        super().__init__()
        parameters = under("steepest", PoolParameters())
        self.fold(c.PoolConfigured(parameters=parameters))
        self.fold(joined("n1", round(1000 * cores)))

    def fold(self, event: c.ClusterEvent, headers: Any = None, at_ms: int | None = None) -> bool:
        """The planner decides after each record, and its limits apply at once."""
        counts = super().fold(event, headers, at_ms)
        for decided in self.planner.step(self.view, self.log[-1]):
            super().fold(decided)
            if isinstance(decided, c.LimitsPlanned) and self.limited:
                for limit in decided.limits:
                    self.limits[limit.job] = limit.cpu_m
                    self.fold(
                        c.LimitsApplied(
                            node=decided.node,
                            plan=decided.plan,
                            job=limit.job,
                            incarnation=limit.incarnation,
                            cpu_m=limit.cpu_m,
                        )
                    )
        return counts

    def begin_job(self, name: str, says: str, steps: int, **more: Any) -> None:
        """A job trains here from now on; ``more``: fields of :class:`Trained`."""
        self.run(name, "n1")
        self.trained[name] = Trained(says, steps, **more)

    def share(self) -> None:
        """A second passes, in which the node gives its CPU to those that run."""
        names = [name for name in self.trained if name not in self.ended]
        limits = [self.limits.get(name) for name in names]
        demands = [1000 * (self.trained[name].demand or self.cores) for name in names]
        shares = share_out(1000 * self.gives, demands, limits, yields=self.yields)
        progress = []
        for name, share in zip(names, shares, strict=True):
            job = self.trained[name]
            job.used_ms += share
            progress.append(c.ReplicaProgress(job=name, incarnation=1, cpu_ms=round(job.used_ms), **job.said()))
        self.now_ms += 1_000
        self.seconds += 1
        jobs = {name: round(share) for name, share in zip(names, shares, strict=True)}
        used = Resources(cpu_m=sum(jobs.values()))
        self.fold(c.NodeUsage(node="n1", used=used, jobs=jobs, progress=tuple(progress)))
        self.fold(c.Tick(counted_ms=self.view.counted_ms + 1_000))
        for name in names:
            if self.trained[name].over:
                self.ended[name] = self.seconds
                self.end(name)

    def train(self, seconds: int) -> None:
        """So many seconds pass, or until all jobs have ended."""
        for _ in range(seconds):
            if len(self.ended) < len(self.trained):
                self.share()

    def facts(self, name: str) -> JobOnNode:
        """What the planner knows of a job."""
        return facts_of(self.planner.state, self.view.parameters.steepest, self.job(name), self.cores)
