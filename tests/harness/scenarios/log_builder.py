"""Logs of a pool made by hand: one method call per event, with the headers that the runtime would have written.

It owns what a valid log looks like; tests make it invalid by omitting events or adding wrong ones. It must never know the
view or any decider.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, CheckpointRef, Resources
from steepest.events.received import Received
from steepest.events.registry import CLUSTER
from steepest.log.base import TopicPartition
from steepest.runtime.decision_stream import DecisionStream

EPOCH = "epoch"
DECIDERS = {
    event: writer.split(",")[0]
    for event, writer in CLUSTER.writers.items()
    if writer not in {"operator", "user", "migrator", "resizer"}
}
"""Each event type that a decider makes, with (one of) its deciders."""

BECAUSE = c.Because(rule="written by hand")


class LogBuilder:
    """A pool's log that grows by acts. Each act returns the story, so that they can be chained.

    Attributes:
        records: The log so far. Decisions have ids and predecessors; each one's cause is the record before it.
    """

    def __init__(self, partition: int = 0) -> None:
        self.records: list[Received[c.ClusterEvent]] = []
        self._partition = partition
        self._at = TopicPartition("cluster", partition)
        self._streams: dict[str, DecisionStream] = {}
        self._attempts: dict[str, int] = {}

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        return len(self.records)

    def add(self, *events: c.ClusterEvent, headers: Mapping[str, str] | None = None) -> Self:
        """Append events, a second apart; given headers replace those of a decision."""
        for event in events:
            self.records.append(
                Received(
                    event=event,
                    topic="cluster",
                    partition=self._partition,
                    offset=self.end,
                    at_ms=1_000 * self.end,
                    key="pool",
                    headers=self._headers(event) if headers is None else headers,
                )
            )
        return self

    def _headers(self, event: c.ClusterEvent) -> Mapping[str, str]:
        decider = DECIDERS.get(type(event))
        if decider is None:
            return {}
        stream = self._streams.setdefault(decider, DecisionStream(decider, 1, self._at))
        (minted,) = stream.mint(EPOCH, self.records[-1], [(self._at, "pool", event)])
        return minted.headers

    # --- acts ----------------------------------------------------------------------------------------------------------

    def opened(self, **nodes_cpu_m: int) -> Self:
        """The pool begins, with these nodes."""
        self.add(c.LogOpened(epoch=EPOCH), c.PoolConfigured(), c.Tick(counted_ms=1_000))
        return self.add(
            *(c.NodeJoined(node=node, capacity=Resources(cpu_m=cpu_m)) for node, cpu_m in nodes_cpu_m.items())
        )

    def submitted(self, job: str, cpu_m: int = 500, mode: CheckpointMode | None = CheckpointMode.ON_REQUEST) -> Self:
        """A job is submitted and admitted."""
        spec = c.JobSpec(command=("train",), requests=Resources(cpu_m=cpu_m), checkpoint_mode=mode)
        return self.add(
            c.JobSubmitted(job=job, request=f"request-{job}", spec=spec),
            c.JobAdmitted(job=job, request=f"request-{job}"),
        )

    def begun(self, plan: str, step: c.Step, job: str, incarnation: int, node: str) -> Self:
        """The plan's next step begins."""
        attempt = self._attempts[plan] = self._attempts.get(plan, 0) + 1
        return self.add(c.StepBegun(plan=plan, step=step, attempt=attempt, job=job, incarnation=incarnation, node=node))

    def placement_planned(self, plan: str, job: str, node: str, incarnation: int = 0) -> Self:
        """Plan the start of a waiting job; ``incarnation`` is the one before."""
        return self.add(c.PlacementPlanned(plan=plan, job=job, incarnation=incarnation, nodes=(node,), because=BECAUSE))

    def move_planned(self, plan: str, job: str, source: str, target: str, incarnation: int = 1) -> Self:
        """Plan the move of a running job."""
        return self.add(
            c.MigrationPlanned(
                plan=plan,
                job=job,
                incarnation=incarnation,
                source=source,
                target=target,
                kind=c.MoveKind.REALLOCATION,
                because=BECAUSE,
            )
        )

    def started(
        self, plan: str, job: str, node: str, incarnation: int = 1, restore: CheckpointRef | None = None
    ) -> Self:
        """The plan starts an incarnation, which is heard of."""
        self.begun(plan, c.Step.START, job, incarnation, node)
        return self.add(
            c.JobPlaced(
                plan=plan, attempt=self._attempts[plan], job=job, incarnation=incarnation, node=node, restore=restore
            ),
            c.ReplicaStarted(job=job, incarnation=incarnation, node=node),
        )

    def saved(self, plan: str, job: str, node: str, step: int = 100, incarnation: int = 1) -> Self:
        """The plan asks the job to save, and it does."""
        self.begun(plan, c.Step.CHECKPOINT, job, incarnation, node)
        return self.add(
            c.CheckpointSaved(
                plan=plan, attempt=self._attempts[plan], job=job, incarnation=incarnation, checkpoint=checkpoint(step)
            )
        )

    def stopped(
        self, plan: str, job: str, node: str, *, step: int = 100, incarnation: int = 1, saved: int | None = 100
    ) -> Self:
        """The plan stops the job."""
        self.begun(plan, c.Step.STOP, job, incarnation, node)
        return self.add(
            c.JobStopped(
                plan=plan,
                attempt=self._attempts[plan],
                job=job,
                incarnation=incarnation,
                exit_status=85,
                step=step,
                checkpoint=None if saved is None else checkpoint(saved),
            )
        )

    def verified(self, plan: str, job: str, node: str, incarnation: int, step: int = 101) -> Self:
        """The plan sees the job's first step."""
        self.begun(plan, c.Step.VERIFY, job, incarnation, node)
        return self.add(
            c.JobResumed(plan=plan, attempt=self._attempts[plan], job=job, incarnation=incarnation, step=step)
        )

    def failed(self, plan: str, step: c.Step, job: str, code: str = "refused", *, definite: bool = True) -> Self:
        """The plan's step under way fails."""
        attempt = self._attempts[plan]
        return self.add(
            c.StepFailed(plan=plan, step=step, attempt=attempt, job=job, code=code, definite=definite, message="no")
        )

    def finished(self, plan: str, job: str, target: str, steps_lost: int = 0) -> Self:
        """A move is done."""
        return self.add(
            c.MigrationFinished(plan=plan, job=job, target=target, steps_lost=steps_lost, took_ms=1, paused_ms=1)
        )

    # --- sequences of events -------------------------------------------------------------------------------------------

    def running(
        self, job: str, node: str, cpu_m: int = 500, mode: CheckpointMode | None = CheckpointMode.ON_REQUEST
    ) -> Self:
        """A job is submitted and runs as incarnation 1."""
        plan = f"place-{self.end}"
        self.submitted(job, cpu_m, mode).placement_planned(plan, job, node)
        return self.started(plan, job, node)

    def moved(self, job: str, source: str, target: str, plan: str = "move") -> Self:
        """A job of incarnation 1 that saves on request is moved, and goes on as incarnation 2."""
        self.move_planned(plan, job, source, target).saved(plan, job, source).stopped(plan, job, source)
        self.started(plan, job, target, 2, restore=checkpoint(100)).verified(plan, job, target, 2)
        return self.finished(plan, job, target)

    def exited(self, job: str, node: str, incarnation: int = 1, status: int = 0) -> Self:
        """A job's process ends by itself; with status 0 the job has finished."""
        self.add(c.ReplicaStopped(job=job, incarnation=incarnation, node=node, exit_status=status, step=200))
        if status == 0:
            self.add(c.JobEnded(job=job, outcome=c.Outcome.FINISHED, exit_status=0))
        return self


def checkpoint(step: int) -> CheckpointRef:
    """A checkpoint of that step."""
    return CheckpointRef(name=f"step-{step:08}-i0001", step=step, digest="sha256:0")
