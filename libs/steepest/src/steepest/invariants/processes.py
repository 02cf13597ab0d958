"""Folds which incarnations may run on which nodes, as far as a log proves it.

It must never know capacities or categories.

Theory. From the ``StepBegun`` of a START that counts, an incarnation *may* run on its node, because the migrator acts
once it has read that record back. From ``JobPlaced`` or ``ReplicaStarted`` on it is *proven* to have run. It is proven
not to run any more by ``ReplicaStopped`` from a node where it may run, a ``JobStopped`` that counts, a step that failed
because the incarnation had ended, and the end of its job. A ``JobStopped`` ends all replicas of a gang, and so does a
definite failure of its START; a ``SurplusStopped`` ends those that it names. A START that definitely failed started
nothing; neither did one whose plan is abandoned before any report of the incarnation. The loss of a node proves nothing,
and neither does a report of another node; an operator's declaration that the node is gone for good does. Facts may come
late: a report that an incarnation started may follow its stop, and then changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.checkers.step_rules import Steps

ENDED_CODES = frozenset({"ended", "unknown-incarnation", "stale-incarnation"})
"""Codes of failed steps which say that the incarnation acted on does not run."""

Key = tuple[int, int, str]
"""A process of a job: its incarnation, replica and node."""

GivenUp = c.PlanAbandoned | c.MigrationFailed | c.TransitionFailed


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
    replica: int = 0
    proven: bool = False


Fold = Callable[[Any, int], list[RunningProcess]]
"""Takes in an event and its offset; gives the processes that may run because of it."""


class RunningProcesses:
    """Folds starts and stops. The owner feeds ``steps`` first."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._of: dict[str, dict[Key, RunningProcess]] = {}
        self._ended: dict[str, dict[tuple[int, int | None], None]] = {}
        self.left: list[RunningProcess] = []
        self._facts: Mapping[type, Fold] = {
            c.ReplicaStarted: self._started,
            c.ReplicaStopped: self._replica_stopped,
            c.JobEnded: self._job_ended,
        }
        self._outcomes: Mapping[type, Fold] = {
            c.StepBegun: self._begin,
            c.JobPlaced: self._placed,
            c.StepFailed: self._failed,
            c.JobStopped: self._job_stopped,
            c.SurplusStopped: self._shed,
            c.PlanAbandoned: self._given_up,
            c.MigrationFailed: self._given_up,
            c.TransitionFailed: self._given_up,
            c.NodeGone: self._leave,
        }

    @property
    def reads(self) -> Collection[type]:
        """The events that change anything here."""
        return (*self._facts, *self._outcomes)

    def of(self, job: str) -> list[RunningProcess]:
        """The processes of a job that may run, in the order of their starts."""
        return list(self._of.get(job, {}).values())

    def feed(self, received: Received[c.ClusterEvent], *, accepted: bool) -> list[RunningProcess]:
        """Process a record; return the processes that may run because of it. ``left`` has those that it ended."""
        self.left = []
        event = received.event
        fold = self._facts.get(type(event)) or (self._outcomes.get(type(event)) if accepted else None)
        return fold(event, received.offset) if fold else []

    def _begin(self, event: c.StepBegun, offset: int) -> list[RunningProcess]:
        if event.step is not c.Step.START:
            return []
        added = []
        for replica, node in enumerate(event.nodes or (event.node,)):
            process = RunningProcess(
                job=event.job, incarnation=event.incarnation, replica=replica, node=node, plan=event.plan, since=offset
            )
            added += self._add(process)
        return added

    def _add(self, process: RunningProcess) -> list[RunningProcess]:
        processes, ended = self._of.setdefault(process.job, {}), self._ended.get(process.job, {})
        key = (process.incarnation, process.replica, process.node)
        if key[:2] in ended or (process.incarnation, None) in ended or key in processes:
            return []
        processes[key] = process
        return [process]

    def _started(self, event: c.ReplicaStarted, offset: int) -> list[RunningProcess]:
        process = RunningProcess(
            job=event.job,
            incarnation=event.incarnation,
            replica=event.replica,
            node=event.node,
            plan="",
            since=offset,
        )
        added = self._add(process)
        self._prove(event.job, (event.incarnation, event.replica, event.node))
        return added

    def _placed(self, event: c.JobPlaced, _: int) -> list[RunningProcess]:
        for replica, node in enumerate(event.nodes or (event.node,)):
            self._prove(event.job, (event.incarnation, replica, node))
        return []

    def _prove(self, job: str, key: Key) -> None:
        process = self._of.get(job, {}).get(key)
        if process is not None:
            process.proven = True

    def _failed(self, event: c.StepFailed, _: int) -> list[RunningProcess]:
        begun = self._steps.plans[event.plan].begun
        if begun is None:
            return []
        if begun.nodes:
            if (
                event.definite
                and event.step in {c.Step.START, c.Step.VERIFY}
                and event.code != c.StepFailure.STEP_TIMEOUT
            ):
                self._stop(event.job, begun.incarnation)
        elif event.code in ENDED_CODES:
            self._stop(event.job, begun.incarnation)
        elif event.step is c.Step.START and event.definite:
            acted_on = (begun.incarnation, begun.node)
            self._drop(
                event.job, [p for p in self.of(event.job) if (p.incarnation, p.node) == acted_on and not p.proven]
            )
        return []

    def _shed(self, event: c.SurplusStopped, _: int) -> list[RunningProcess]:
        for answer in event.replicas:
            self._stop(event.job, event.incarnation, answer.replica)
        return []

    def _given_up(self, event: GivenUp, _: int) -> list[RunningProcess]:
        self._drop(event.job, [p for p in self.of(event.job) if p.plan == event.plan and not p.proven])
        return []

    def _replica_stopped(self, event: c.ReplicaStopped, _: int) -> list[RunningProcess]:
        if self._may_know(event):
            self._stop(event.job, event.incarnation, event.replica)
        return []

    def _job_stopped(self, event: c.JobStopped, _: int) -> list[RunningProcess]:
        self._stop(event.job, event.incarnation)
        return []

    def _job_ended(self, event: c.JobEnded, _: int) -> list[RunningProcess]:
        self._drop(event.job, self.of(event.job))
        return []

    def _may_know(self, event: c.ReplicaStopped) -> bool:
        """Whether a report counts: a node knows nothing about processes on other nodes."""
        named = (event.incarnation, event.replica)
        nodes = [process.node for process in self.of(event.job) if (process.incarnation, process.replica) == named]
        return not nodes or event.node in nodes

    def _leave(self, event: c.NodeGone, _: int) -> list[RunningProcess]:
        there = [process for job in self._of.values() for process in job.values() if process.node == event.node]
        for process in there:
            self._ended.setdefault(process.job, {})[process.incarnation, process.replica] = None
            del self._of[process.job][process.incarnation, process.replica, process.node]
        self.left.extend(there)
        return []

    def _stop(self, job: str, incarnation: int, replica: int | None = None) -> None:
        """End a replica of an incarnation; None: all of them."""
        self._ended.setdefault(job, {})[incarnation, replica] = None
        ended = [process for process in self.of(job) if process.incarnation == incarnation]
        self._drop(job, [process for process in ended if replica is None or process.replica == replica])

    def _drop(self, job: str, processes: list[RunningProcess]) -> None:
        for process in processes:
            del self._of[job][process.incarnation, process.replica, process.node]
        self.left.extend(processes)
