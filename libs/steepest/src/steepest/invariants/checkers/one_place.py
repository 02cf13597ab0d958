"""Checker: no job runs in two places at the same time."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.checkers.step_rules import Steps
from steepest.invariants.processes import RunningProcess, RunningProcesses
from steepest.invariants.verdict import Checker


class OnePlace(Checker):
    """A replica of a job runs in at most one place, and at most one incarnation of the job runs.

    An incarnation may run from the moment its START counts until the log proves that it does not: by
    ``ReplicaStopped``, a ``JobStopped`` that counts, a START that definitely failed, or the end of the job. Starting
    an incarnation while another one may still run is a breach, and so is a report of a running process that no such
    proof allows. The loss of a node proves nothing about what ran on it. A process that is known by a report alone is
    astray: its START had failed for all that was known, and it came late. Cluster and janitor see to it, so the next START
    may begin beside it, but nothing may be started by it before the stray has ended.
    """

    name = "one-place"

    def __init__(self) -> None:
        super().__init__()
        self._steps = Steps()
        self._processes = RunningProcesses(self._steps)

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        accepted = self._steps.feed(received)
        begun = self._processes.feed(received, accepted=accepted)
        for process in begun:
            self._check(process, received.offset, is_new=True)
        for process in self._processes.proved:
            if not any(process is one for one in begun):
                self._check(process, received.offset, is_new=False)

    def _check(self, process: RunningProcess, offset: int, *, is_new: bool) -> None:
        for other in self._processes.of(process.job):
            if other is process or _are_of_one_gang(other, process):
                continue
            is_astray = not (process.plan and other.plan)
            if (process.proven and other.proven) if is_astray else is_new:
                message = f"job {process.job} may run as {_where(process)} while it may still run as {_where(other)}"
                self.breach(message, other.since, offset)


def _are_of_one_gang(one: RunningProcess, other: RunningProcess) -> bool:
    return one.incarnation == other.incarnation and one.replica != other.replica


def _where(process: RunningProcess) -> str:
    replica = f", replica {process.replica}," if process.replica else ""
    return f"incarnation {process.incarnation}{replica} on {process.node}"
