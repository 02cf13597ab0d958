"""The virtual-time shell of the limit machine: limits are set on simulated nodes, outcomes go to a simulated log."""

from __future__ import annotations

from collections.abc import Callable

from steepest.errors import ClusterError
from steepest.events import cluster as c
from steepest.sagas.limit_machine import LimitMachine, LimitTask
from steepest_lab.simulated.nodes import SimulatedNodes


class SimulatedResizer:
    """Sets CPU limits.

    Attributes:
        machine: Says what is due; :meth:`act` does it.
    """

    def __init__(self, nodes: SimulatedNodes, append: Callable[[c.ClusterEvent], None]) -> None:
        """``append`` appends an event."""
        self.machine = LimitMachine()
        self._nodes = nodes
        self._append = append
        self._newest: dict[str, LimitTask] = {}

    def act(self) -> None:
        """Set the due limits; a simulated node answers immediately."""
        due, self.machine.due = self.machine.due, []
        for task in due:
            if self._newest.get(task.job) == task:
                continue  # a late outcome asks for the newest limit again; here no older one is ever set after it
            self._newest[task.job] = task
            outcome = self.machine.answer(task, self._set(task))
            if outcome is not None:
                self._append(outcome)

    def forget(self, job: str) -> None:
        """A job is over."""
        self._newest.pop(job, None)

    def _set(self, task: LimitTask) -> ClusterError | None:
        try:
            for replica in task.replicas:
                self._nodes.limit(replica, task.incarnation, task.cpu_m)
        except ClusterError as error:
            return error
        return None
