"""Folds how each job can be checkpointed, from users' and processes' declarations and from proven checkpoints.

It must never know plans.
"""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, CheckpointRef, known_mode


class Modes:
    """Folds checkpoint modes and the newest checkpoint of each job."""

    def __init__(self) -> None:
        self._asked: dict[str, CheckpointMode] = {}
        self._declared: dict[str, CheckpointMode] = {}
        self._savers: dict[str, int] = {}
        self.newest: dict[str, CheckpointRef] = {}

    def feed(self, event: c.ClusterEvent) -> None:
        """Process an event."""
        match event:
            case c.JobSubmitted(spec=c.JobSpec(checkpoint_mode=CheckpointMode() as mode)):
                self._asked.setdefault(event.job, mode)
            case c.CheckpointModeDeclared(mode=mode) if mode is not CheckpointMode.AUTO:
                self._declare(event)
            case c.CheckpointSaved() | c.CheckpointVerified() | c.ReplicaStopped() | c.JobStopped():
                if event.checkpoint is not None:
                    self.newest[event.job] = event.checkpoint
            case c.JobEnded():
                for fold in (self._asked, self._declared, self._savers, self.newest):
                    fold.pop(event.job, None)

    def _declare(self, event: c.CheckpointModeDeclared) -> None:
        """The mode of replica 0, the chief, counts; where it cannot save, that of another replica which can."""
        mode, saver = self._declared.get(event.job, CheckpointMode.NONE), self._savers.get(event.job, 0)
        if event.replica == 0 and not (saver and event.mode is CheckpointMode.NONE):
            self._declared[event.job], self._savers[event.job] = event.mode, 0
        elif event.replica and (saver == event.replica or (mode is CheckpointMode.NONE and not saver)):
            if event.mode is not CheckpointMode.NONE:
                self._savers[event.job] = event.replica
            self._declared[event.job] = event.mode

    def of(self, job: str) -> CheckpointMode:
        """The user's declaration, otherwise the process's; without either, the job cannot be checkpointed."""
        return known_mode(self._asked.get(job), self._declared.get(job))

    def why_immovable(self, job: str) -> str:
        """Why a job must not be moved; empty if it may be."""
        mode = self.of(job)
        if mode is CheckpointMode.NONE:
            return f"job {job} cannot be checkpointed"
        if mode is CheckpointMode.ON_STOP and job not in self.newest:
            return f"job {job} saves when it is stopped, and has never proven that it can"
        return ""
