"""Which incarnations may run where: the tiny fold of what a log proves about processes.

It must never know capacities or categories.

Theory. From the ``StepBegun`` of a START that counts an incarnation *may* run on its node: whoever began it acts on what
it read back. It *surely* ran from ``JobPlaced`` or ``ReplicaStarted`` on. It surely runs no more from the
``ReplicaStopped`` of a node where it may run, from a ``JobStopped`` that counts, from a step that failed because it had
ended, and from the end of its job. A START that definitely failed started nothing; neither did one whose plan is given up
before anything was heard of it. The loss of a node proves nothing, and neither does what another node says; an operator's
word that it is gone for good does. Facts come late: that an incarnation started may be told after it was stopped, which is
no news.
"""

from __future__ import annotations

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.checkers.step_rules import Steps

ENDED_CODES = frozenset({"ended", "unknown-incarnation"})
"""Codes of failed steps which say that the incarnation acted on does not run."""


class RunningProcess(msgspec.Struct, kw_only=True):
    """An incarnation that may run.

    Attributes:
        plan: The plan that started it; empty where only its facts are known.
        since: Offset of the record from which on it may run.
        proven: Whether it surely ran.
    """

    job: str
    incarnation: int
    node: str
    plan: str
    since: int
    proven: bool = False


class RunningProcesses:
    """Folds starts and stops. ``steps`` is fed by the owner, before this."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._of: dict[str, dict[tuple[int, str], RunningProcess]] = {}
        self._ended: dict[str, dict[int, None]] = {}
        self.left: list[RunningProcess] = []

    def of(self, job: str) -> list[RunningProcess]:
        """What may run of a job, in the order of its beginning."""
        return list(self._of.get(job, {}).values())

    def feed(self, received: Received[c.ClusterEvent], *, accepted: bool) -> RunningProcess | None:
        """Take in a record and give the process that may run because of it; ``left`` is what runs no more since it."""
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
        """A node knows nothing of what runs elsewhere."""
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
