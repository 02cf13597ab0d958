"""Folds which incarnations may run on which nodes, as far as a log proves it.

It must never know capacities or categories.

Theory. From the ``StepBegun`` of a START that counts, an incarnation *may* run on its node, because the migrator acts
once it has read that record back. From ``JobPlaced`` or ``ReplicaStarted`` on it is *proven* to have run. It is proven
not to run any more by ``ReplicaStopped`` from a node where it may run, a ``JobStopped`` that counts, a step that failed
because the incarnation had ended, and the end of its job. A START that definitely failed started nothing; neither did
one whose plan is abandoned before any report of the incarnation. The loss of a node proves nothing, and neither does a
report of another node; an operator's declaration that the node is gone for good does. Facts may come late: a report
that an incarnation started may follow its stop, and then changes nothing.
"""

from __future__ import annotations

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.checkers.step_rules import Steps

ENDED_CODES = frozenset({"ended", "unknown-incarnation"})
"""Codes of failed steps which say that the incarnation acted on does not run."""


class RunningProcess(msgspec.Struct, kw_only=True):
    """An incarnation that may be running.

    Attributes:
        plan: The plan that started it; empty if only reports of it are known.
        since: Offset of the record since which it may run.
        proven: Whether it is proven to have run.
    """

    job: str
    incarnation: int
    node: str
    plan: str
    since: int
    proven: bool = False


class RunningProcesses:
    """Folds starts and stops. The owner feeds ``steps`` first."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._of: dict[str, dict[tuple[int, str], RunningProcess]] = {}
        self._ended: dict[str, dict[int, None]] = {}
        self.left: list[RunningProcess] = []

    def of(self, job: str) -> list[RunningProcess]:
        """The processes of a job that may run, in the order of their starts."""
        return list(self._of.get(job, {}).values())

    def feed(self, received: Received[c.ClusterEvent], *, accepted: bool) -> RunningProcess | None:
        """Process a record; return the process that may run because of it. ``left`` has those that it ended."""
        self.left = []
        event = received.event
        match event:
            case c.StepBegun(step=c.Step.START) if accepted:
                return self._add(event.job, event.incarnation, event.node, event.plan, received.offset)
            case c.ReplicaStarted():
                return self._started(event, received.offset)
            case c.JobPlaced() if accepted:
                self._prove(event.job, event.incarnation, event.node)
            case c.StepFailed() if accepted:
                self._failed(event)
            case c.ReplicaStopped() if self._may_know(event):
                self._stop(event.job, event.incarnation)
            case c.JobStopped() if accepted:
                self._stop(event.job, event.incarnation)
            case c.PlanAbandoned() | c.MigrationFailed() if accepted:
                self._drop(event.job, [p for p in self.of(event.job) if p.plan == event.plan and not p.proven])
            case c.JobEnded():
                self._drop(event.job, self.of(event.job))
            case c.NodeGone():
                self._leave(event.node)
        return None

    def _add(self, job: str, incarnation: int, node: str, plan: str, offset: int) -> RunningProcess | None:
        processes = self._of.setdefault(job, {})
        if incarnation in self._ended.get(job, {}) or (incarnation, node) in processes:
            return None
        process = RunningProcess(job=job, incarnation=incarnation, node=node, plan=plan, since=offset)
        processes[incarnation, node] = process
        return process

    def _started(self, event: c.ReplicaStarted, offset: int) -> RunningProcess | None:
        process = self._add(event.job, event.incarnation, event.node, "", offset)
        self._prove(event.job, event.incarnation, event.node)
        return process

    def _prove(self, job: str, incarnation: int, node: str) -> None:
        process = self._of.get(job, {}).get((incarnation, node))
        if process is not None:
            process.proven = True

    def _failed(self, event: c.StepFailed) -> None:
        begun = self._steps.plans[event.plan].begun
        if begun is None:
            return
        if event.code in ENDED_CODES:
            self._stop(event.job, begun.incarnation)
        elif event.step is c.Step.START and event.definite:
            acted_on = (begun.incarnation, begun.node)
            self._drop(
                event.job, [p for p in self.of(event.job) if (p.incarnation, p.node) == acted_on and not p.proven]
            )

    def _may_know(self, event: c.ReplicaStopped) -> bool:
        """Whether a report counts: a node knows nothing about processes on other nodes."""
        nodes = [process.node for process in self.of(event.job) if process.incarnation == event.incarnation]
        return not nodes or event.node in nodes

    def _leave(self, node: str) -> None:
        there = [process for job in self._of.values() for process in job.values() if process.node == node]
        for process in there:
            self._ended.setdefault(process.job, {})[process.incarnation] = None
            del self._of[process.job][process.incarnation, node]
        self.left.extend(there)

    def _stop(self, job: str, incarnation: int) -> None:
        self._ended.setdefault(job, {})[incarnation] = None
        self._drop(job, [process for process in self.of(job) if process.incarnation == incarnation])

    def _drop(self, job: str, processes: list[RunningProcess]) -> None:
        for process in processes:
            del self._of[job][process.incarnation, process.node]
        self.left.extend(processes)
