"""Checker: no job runs in two places at the same time."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.processes import RunningProcess
from steepest.invariants.verdict import Checker


class OnePlace(Checker):
    """A replica of a job runs in at most one place, and at most one incarnation of the job runs.

    An incarnation may run from the moment its START counts until the log proves that it does not: by
    ``ReplicaStopped``, a ``JobStopped`` that counts, a START that definitely failed, or the end of the job. Starting
    an incarnation while another one may still run is a breach, and so is a report of a running process that no such
    proof allows. The loss of a node proves nothing about what ran on it.
    """

    name = "one-place"

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        for started in self._folds.started:
            for other in self._folds.processes.of(started.job):
                if other is started or _are_of_one_gang(other, started):
                    continue
                message = f"job {started.job} may run as {_where(started)} while it may still run as {_where(other)}"
                self.breach(message, other.since, received.offset)


def _are_of_one_gang(one: RunningProcess, other: RunningProcess) -> bool:
    return one.incarnation == other.incarnation and one.replica != other.replica


def _where(process: RunningProcess) -> str:
    replica = f", replica {process.replica}," if process.replica else ""
    return f"incarnation {process.incarnation}{replica} on {process.node}"
