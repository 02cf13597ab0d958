"""Checker: no job runs in two places at the same time."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.checkers.step_rules import Steps
from steepest.invariants.processes import RunningProcess, RunningProcesses
from steepest.invariants.verdict import Checker


class OnePlace(Checker):
    """A job of one replica runs in at most one place.

    An incarnation may run from the moment its START counts until the log proves that it does not: by
    ``ReplicaStopped``, a ``JobStopped`` that counts, a START that definitely failed, or the end of the job. Starting
    an incarnation while another one may still run is a breach, and so is a report of a running process that no such
    proof allows. The loss of a node proves nothing about what ran on it.
    """

    name = "one-place"

    def __init__(self) -> None:
        super().__init__()
        self._steps = Steps()
        self._processes = RunningProcesses(self._steps)
        self._gangs: dict[str, None] = {}

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event = received.event
        if isinstance(event, c.JobSubmitted) and event.spec.replicas > 1:
            self._gangs[event.job] = None
        accepted = self._steps.feed(received)
        started = self._processes.feed(received, accepted=accepted)
        if started is None or started.job in self._gangs:
            return
        for other in self._processes.of(started.job):
            if other is not started:
                message = f"job {started.job} may run as {_where(started)} while it may still run as {_where(other)}"
                self.breach(message, other.since, received.offset)


def _where(process: RunningProcess) -> str:
    return f"incarnation {process.incarnation} on {process.node}"
