"""Checker: incarnation numbers only increase."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import Checker


class Incarnations(Checker):
    """A job's incarnation number rises at each start, so that reports of an older one can be recognised and refused.

    A START that counts names a number above all before it, or that of the same plan's START, tried again. Every
    reported process has a number that a START gave it. Reports of an older incarnation may come late and are no
    breach. A name that is submitted again after its job has ended begins again.
    """

    name = "incarnations-rise"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._newest: dict[str, tuple[int, str, int]] = {}
        self._submitted: dict[str, None] = {}

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event, offset = received.event, received.offset
        counts = self._folds.counts
        match event:
            case c.JobSubmitted():
                self._submitted[event.job] = None
            case c.StepBegun(step=c.Step.START) if counts:
                self._start(event, offset)
            case c.ReplicaStarted() if event.job in self._submitted:
                number, _, at = self._newest.get(event.job, (0, "", offset))
                if event.incarnation > number:
                    message = (
                        f"job {event.job} runs as incarnation {event.incarnation}, but the newest started is {number}"
                    )
                    self.breach(message, at, offset)
            case c.JobEnded():
                self._newest.pop(event.job, None)
                self._submitted.pop(event.job, None)

    def _start(self, event: c.StepBegun, offset: int) -> None:
        number, plan, at = self._newest.get(event.job, (0, "", offset))
        if event.incarnation < number or (event.incarnation == number and event.plan != plan):
            message = f"job {event.job} is started as incarnation {event.incarnation} after {number}"
            self.breach(message, at, offset)
            return
        self._newest[event.job] = (event.incarnation, event.plan, offset)
