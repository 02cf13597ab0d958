"""Checker: moves report the number of steps that they lost."""

from __future__ import annotations

import msgspec

from steepest.events import cluster as c
from steepest.events.common import CheckpointRef
from steepest.events.received import Received
from steepest.invariants.folds import LogFolds
from steepest.invariants.modes import Modes
from steepest.invariants.verdict import Checker

Lost = c.MigrationFinished | c.MigrationFailed | c.JobSuspended | c.TransitionFinished | c.TransitionFailed


class Stop(msgspec.Struct):
    """The stop of a move: the last step reported before it, the step that the job continues from, and its offset."""

    step: int
    saved: int
    offset: int
    restored: bool = False


def _held(checkpoint: CheckpointRef | None, stopped: int) -> int:
    if checkpoint is None:
        return 0
    return stopped if checkpoint.is_image else checkpoint.step


class StepsLost(Checker):
    """The ``steps_lost`` of a move or suspension is what its stop and its checkpoint say.

    The job reported its last step s before the ``JobStopped`` that counts, and continues from step r: that of the
    checkpoint which the plan's next ``JobPlaced`` restores, or where there is none, of the newest one that the log
    knows, or 0. The steps from r to s are done again: max(0, s − r); none of them where the checkpoint is an image of
    its processes. A move that stopped nothing lost nothing.
    """

    name = "steps-lost"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._modes = Modes()
        self._stops: dict[str, Stop] = {}
        self._moves = 0
        self._lost = 0

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event, offset = received.event, received.offset
        counts = self._folds.counts
        if counts or not isinstance(event, c.CheckpointSaved | c.JobStopped):
            self._modes.feed(event)  # one that comes again, behind newer ones, says nothing of the newest checkpoint
        match event:
            case c.JobStopped() if counts:
                newest = self._modes.newest.get(event.job)
                self._stops[event.plan] = Stop(event.step or 0, _held(newest, event.step or 0), offset)
            case c.JobPlaced() if counts and (stop := self._stops.get(event.plan)) and not stop.restored:
                stop.restored, stop.saved = True, _held(event.restore, stop.step)
            case (
                c.MigrationFinished()
                | c.MigrationFailed()
                | c.JobSuspended()
                | c.TransitionFinished()
                | c.TransitionFailed()
            ) if counts:
                self._check(event, offset)

    def _check(self, event: Lost, offset: int) -> None:
        stop = self._stops.pop(event.plan, None)
        lost = max(0, stop.step - stop.saved) if stop else 0
        self._moves += 1
        self._lost += lost
        if event.steps_lost != lost:
            claim = f"plan {event.plan} reports {event.steps_lost} lost steps"
            reason = f"it stopped at step {stop.step} and continues from {stop.saved}" if stop else "it stopped nothing"
            self.breach(f"{claim}, but {reason}", *([stop.offset] if stop else []), offset)

    def summary(self) -> str:
        """The number of moves checked, and of the steps that they lost in total."""
        return f"moves: {self._moves}, steps lost: {self._lost}"
