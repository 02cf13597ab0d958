"""The schedule of a simulated run, job by job, from its log."""

from __future__ import annotations

from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received

TOLD_BY = frozenset(
    {
        c.JobPlaced,
        c.NodeUsage,
        c.JobSubmitted,
        c.GrowthMeasured,
        c.JobEnded,
        c.JobRejected,
        c.JobSuspended,
        c.MigrationFinished,
        c.TransitionPlanned,
        c.TransitionFinished,
    }
)
"""Events that change it."""


class Schedule(msgspec.Struct):
    """The schedule of a run, job by job.

    Attributes:
        first_nodes: Where each job was placed first.
        to_learn: The steps after which each job has 90 % of the reduction of its loss.
        learned_ms: When it had them; between two reports, as if it went at one pace.
        seen: The newest report of each job: when, and the step.
        scaling: Of the plans under way that scale a gang, whether it gets more replicas.
        scale_ups: How often a gang got more replicas.
        scale_downs: How often a gang gave up some.
        newest_ms: When a job last came, started, learned, moved or ended.
    """

    starts_ms: dict[str, int] = {}
    ends_ms: dict[str, int] = {}
    outcomes: dict[str, str] = {}
    migrations: dict[str, int] = {}
    suspensions: dict[str, int] = {}
    first_nodes: dict[str, str] = {}
    to_learn: dict[str, int] = {}
    learned_ms: dict[str, int] = {}
    seen: dict[str, tuple[int, int]] = {}
    scaling: dict[str, bool] = {}
    scale_ups: int = 0
    scale_downs: int = 0
    newest_ms: int = 0

    def add(self, received: Received[Any]) -> None:
        """Take in a record."""
        event = received.event
        if type(event) not in TOLD_BY:
            return
        if isinstance(event, c.NodeUsage):
            for progress in event.progress:
                self._follow(progress, received.at_ms)
            return
        match event:
            case c.JobPlaced():
                self.starts_ms.setdefault(event.job, received.at_ms)
                self.first_nodes.setdefault(event.job, event.node)
            case c.JobSubmitted() | c.GrowthMeasured():
                pass
            case c.JobEnded():
                self.ends_ms[event.job] = received.at_ms
                if event.outcome is c.Outcome.FINISHED:
                    self.learned_ms.setdefault(event.job, received.at_ms)
                self.outcomes[event.job] = event.outcome.value
            case c.JobRejected():
                self.outcomes[event.job] = "rejected"
            case c.MigrationFinished() | c.JobSuspended():
                counts = self.suspensions if isinstance(event, c.JobSuspended) else self.migrations
                counts[event.job] = counts.get(event.job, 0) + 1
            case c.TransitionPlanned(kind=c.Transition.SCALE | c.Transition.SHED):
                self.scaling[event.plan] = len(event.nodes) > len(event.sources)
            case c.TransitionFinished(plan=plan) if plan in self.scaling:
                more = self.scaling.pop(plan)
                self.scale_ups += more
                self.scale_downs += not more
            case _:
                return
        self.newest_ms = received.at_ms

    def _follow(self, progress: c.ReplicaProgress, at_ms: int) -> None:
        job, step, goal = progress.job, progress.step, self.to_learn.get(progress.job)
        if step is None or goal is None or job in self.learned_ms:
            return
        before_ms, before = self.seen.get(job, (self.starts_ms.get(job, at_ms), 0))
        if step >= goal:
            share = (goal - before) / (step - before) if step > before else 1.0
            self.learned_ms[job] = round(before_ms + share * (at_ms - before_ms))
        self.seen[job] = (at_ms, step)
