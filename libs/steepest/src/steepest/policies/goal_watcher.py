"""Notices that a job has reached the goal that its user set (``submit --until``, ``--patience``).

A goal is judged by the means of the evaluation function over the categorizer's intervals: a single report is noise. A job
whose losses cannot be read has no intervals, and so reaches no goal; it trains until its process ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.policies import rising
from steepest.policies.unread import AwaitsDecisions
from steepest.view.cluster_view import ClusterView
from steepest.view.progress import cpu_ms_left
from steepest.view.state import Job, Phase


class BestMean(msgspec.Struct):
    """The best mean of a job so far, and the number of intervals since then."""

    value: float
    behind: int = 0


class GoalState(AwaitsDecisions):
    """The running jobs that have a goal, with their best means."""

    best: dict[str, BestMean] = msgspec.field(default_factory=dict)


class GoalWatcher:
    """Answers an interval of a job that has reached its goal with ``GoalReached``."""

    name = "goal-watcher"
    logic = 1
    reads: frozenset[type] = frozenset({c.JobEnded, c.JobRejected, c.GrowthMeasured})
    state_type = GoalState

    def __init__(self, state: GoalState | None = None) -> None:
        self.state = state or GoalState()

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: the job's next interval is judged again."""

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """Judge an interval. Work: O(1)."""
        match received.event:
            case c.JobEnded(job=name) | c.JobRejected(job=name) if view.jobs.is_over(name):
                self.state.best.pop(name, None)
            case c.GrowthMeasured(job=name) as measured:
                job = view.jobs.get(name)
                if measured.metric:
                    self.state.best.pop(name, None)
                if job is None or job.spec.goal is None or job.phase is Phase.ENDED or not measured.count:
                    return ()
                return self._judge(job, job.spec.goal, measured.total / measured.count)
        return ()

    def _judge(self, job: Job, goal: c.Goal, mean: float) -> Sequence[c.GoalReached]:
        rises = goal.above is not None or (goal.below is None and rising.rises(job.spec.metric))
        behind = self._intervals_behind(job.name, mean, rises=rises)
        reason = _reached(job.spec.metric, goal, mean, behind)
        is_open = job.alive and not job.cancel and not self.state.awaits("job", job.name)
        if not reason or not is_open:
            return ()
        saved = cpu_ms_left(job)
        reached = c.GoalReached(
            job=job.name, incarnation=job.incarnation, reason=reason, value=mean, cpu_ms_saved=saved
        )
        return (reached,)

    def _intervals_behind(self, name: str, mean: float, *, rises: bool) -> int:
        """How many intervals ago the job's best mean was; 0: it is this one."""
        best = self.state.best.get(name)
        if best is None or (mean > best.value if rises else mean < best.value):
            self.state.best[name] = BestMean(mean)
            return 0
        best.behind += 1
        return best.behind


def _reached(metric: str, goal: c.Goal, mean: float, behind: int) -> str:
    """The part of a goal that is reached, in words; empty where none is."""
    if goal.below is not None and mean < goal.below:
        return f"{metric} < {goal.below:g}: {mean:.4g} in the last interval"
    if goal.above is not None and mean > goal.above:
        return f"{metric} > {goal.above:g}: {mean:.4g} in the last interval"
    if goal.patience is not None and behind >= goal.patience:
        return f"{metric} has not improved for {behind} interval{'' if behind == 1 else 's'}"
    return ""
