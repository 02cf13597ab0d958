"""What several checkers fold out of a log, folded once: plans and their steps, processes, reservations, and modes.

It must never judge. A checker looks at it before a record (``Checker.before``), behind it (``Checker.feed``), or both, and
never changes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from steepest.events.cluster import ClusterEvent
from steepest.events.received import Received
from steepest.invariants.checkers.step_rules import Steps
from steepest.invariants.load import Reservations
from steepest.invariants.modes import Modes
from steepest.invariants.processes import RunningProcess, RunningProcesses


class LogFolds:
    """The folds of one partition of ``cluster``.

    Attributes:
        counts: Whether the newest record counts; False for a beginning, outcome, conclusion or end of a node that does not.
        started: The processes that may run because of it.
        fuller: The nodes whose reservations it increased.
    """

    def __init__(self) -> None:
        self.steps = Steps()
        self.processes = RunningProcesses(self.steps)
        self.reservations = Reservations(self.steps, self.processes)
        self.modes = Modes()
        self.counts = True
        self.started: Sequence[RunningProcess] = ()
        self.fuller: Sequence[str] = ()
        self._reads = frozenset((*self.steps.reads, *self.processes.reads))

    def feed(self, received: Received[ClusterEvent]) -> None:
        """Process the next record."""
        self.counts, self.started, self.fuller = True, (), ()
        self.modes.feed(received.event)
        if type(received.event) not in self._reads:
            return
        self.reservations.before(received.event)
        self.counts = self.steps.feed(received)
        self.started = self.processes.feed(received, accepted=self.counts)
        self.fuller = self.reservations.feed(received.event, self.started, accepted=self.counts)
