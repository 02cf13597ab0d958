"""Checker: no job ends much later than it would have ended under fair sharing."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import Checker

MAY_BE_LATER = 0.25
"""Share of its fair completion time by which a job may end later: sizes are estimates, and jobs come unforeseen."""

AT_LEAST_MS = 30_000
"""And by at least this; a launch, a checkpoint and a tick take seconds."""


class FairEnd(Checker):
    """Under the policy ``steepest`` no job ends much later than it would have ended under fair sharing.

    Each plan of limits states the fair end of every job on its node, as far as it is known then. The newest one before a
    job's end counts. A job that ends later than that by more than a quarter of its fair completion time, and by more than
    30 s, breaks the promise. Nothing is promised to a job whose size is unknown, that failed, lost its node or was
    suspended by another rule than the policy's, or that ran in a pool whose parameters changed.
    """

    name = "fair-end"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._submitted_ms: dict[str, int] = {}
        self._promised: dict[str, tuple[int, int]] = {}
        self._excused: dict[str, None] = {}
        self._suspended: dict[str, None] = {}
        self._can_wait: dict[str, None] = {}
        self._later: list[float] = []

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event = received.event
        match event:
            case c.JobSubmitted():
                self._submitted_ms.setdefault(event.job, received.at_ms)
            case c.LimitsPlanned():
                for standing in event.because.standing:
                    self._promise(standing, received.offset)
            case c.ReplicaStopped() if event.exit_status != 0:
                self._excused[event.job] = None
            case c.CheckpointSaved():
                self._excused.pop(event.job, None)
            case c.TransitionPlanned(kind=c.Transition.SUSPEND) if event.because.standing is not None:
                self._can_wait[event.plan] = None
            case c.JobSuspended():
                if event.plan in self._can_wait:
                    del self._can_wait[event.plan]
                else:
                    self._suspended[event.job] = None
            case c.NodeLost() | c.NodeGone() | c.PoolConfigured():
                self._promised.clear()
            case c.JobEnded():
                self._end(event, received)

    def _promise(self, standing: c.FairStanding, offset: int) -> None:
        if standing.fair_end_ms is None:
            self._promised.pop(standing.job, None)
        else:
            self._promised[standing.job] = (standing.fair_end_ms, offset)

    def _end(self, event: c.JobEnded, received: Received[c.ClusterEvent]) -> None:
        submitted_ms = self._submitted_ms.pop(event.job, None)
        fair_end_ms, offset = self._promised.pop(event.job, (None, 0))
        excused = event.job in self._excused or event.job in self._suspended
        self._suspended.pop(event.job, None)
        self._excused.pop(event.job, None)
        if submitted_ms is None or fair_end_ms is None or excused or event.outcome is not c.Outcome.FINISHED:
            return
        fair_ms, later_ms = max(fair_end_ms - submitted_ms, 1), received.at_ms - fair_end_ms
        self._later.append(later_ms / fair_ms)
        if later_ms > max(AT_LEAST_MS, MAY_BE_LATER * fair_ms):
            self.breach(
                f"{event.job} ends {later_ms / 1000:.0f} s after its fair end, {later_ms / fair_ms:.0%} later",
                offset,
                received.offset,
            )

    def summary(self) -> str:
        """How many jobs had a fair end, how many ended more than 5 % after it, and the latest of them."""
        late = sum(later > 0.05 for later in self._later)  # noqa: PLR2004 - as `steepest simulate` counts them
        worst = f", latest {max(self._later):+.0%}" if self._later else ""
        return f"jobs with a fair end: {len(self._later)}, more than 5 % later: {late}{worst}"
