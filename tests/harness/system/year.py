"""A pool's life for as long as one wants, with the real deciders in virtual time, to see what it leaves behind.

It owns jobs that come, train, end and sometimes are never said to have ended, and nodes that come and go. Three quarters of
an hour pass in a step, so heartbeats and ticks are rarer than in a real pool; all else that a job leads to is there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
from tests.harness.scenarios.folded_pool import EPOCH
from tests.harness.system.driver import AT, DeciderDriver

from steepest.events import cluster as c
from steepest.events import heartbeat as h
from steepest.events.common import CheckpointMode, Resources
from steepest.events.loss import JobUnwatched, JobWatched, LossReported
from steepest.events.parameters import FlowConParameters, PoolParameters, SpeConParameters
from steepest.events.received import Received
from steepest.events.registry import encode
from steepest.log.base import TopicPartition
from steepest.policies.decider import StreamDecider
from steepest.policies.deciders import CLUSTER_DECIDERS
from steepest.policies.monitor.facts import Facts
from steepest.policies.monitor.use import usage_every_ms
from steepest.policies.named import under
from steepest.policies.specon.categorizer import Categorizer
from steepest.runtime.decision_stream import DecisionStream
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Phase

STEP_MS = 2_700_000
STEPS_A_DAY = 86_400_000 // STEP_MS
REPORTS = 2
"""Reports of a job in each step."""

CAPACITY = Resources(cpu_m=8_000)
SPOT_STEPS = STEPS_A_DAY // 4

PARTITIONS = 4
ENV = {f"VARIABLE_{number}": "x" * 40 for number in range(20)}


class Counted:
    """A log that is not kept: how many records it has, and how many bytes their values and headers are."""

    def __init__(self, records: Sequence[Received[Any]]) -> None:
        self.records = self.bytes = 0
        for received in records:
            self.append(received)

    def __len__(self) -> int:
        return self.records

    def append(self, received: Received[Any]) -> None:
        """One more."""
        self.records += 1
        self.bytes += len(encode(received.event)) + sum(len(name) + len(one) for name, one in received.headers.items())


class SimulatedJob(msgspec.Struct):
    """An incarnation that trains for some more steps; ``exit_status`` once it has ended."""

    node: str
    incarnation: int
    left: int
    loss: float = 4.0
    exit_status: int | None = None


class PoolLife(DeciderDriver):
    """A pool in which every day is like the other.

    Attributes:
        logs: Records and bytes of each topic.
    """

    def __init__(self, jobs_a_day: int, *, nodes: int, spots_a_day: int, policy: str = "specon+flowcon") -> None:
        """Some nodes stay; spot machines come for six hours each, under names of their own."""
        super().__init__(*(kind() for kind in CLUSTER_DECIDERS.values()))
        self.logs = {"cluster": Counted(self.log), "loss": Counted(()), "heartbeats": Counted(())}
        self.log = self.logs["cluster"]  # type: ignore[assignment]  # all that is asked of it is its length
        self.streams: list[StreamDecider] = [Facts(), *(Categorizer() for _ in range(PARTITIONS))]
        self._rng = random.Random(0)
        self._jobs_a_step = jobs_a_day / STEPS_A_DAY
        self._spots_a_step = spots_a_day / STEPS_A_DAY
        self._jobs = self._spots = 0.0
        self._nodes: dict[str, int | None] = {f"node-{number}": None for number in range(nodes)}
        self._processes: dict[str, SimulatedJob] = {}
        self._made: dict[TopicPartition, DecisionStream] = {}
        parameters = PoolParameters(
            tick_ms=STEP_MS,
            node_lost_ms=3 * STEP_MS,
            specon=SpeConParameters(interval_ms=STEP_MS),
            flowcon=FlowConParameters(interval_ms=STEP_MS),
        )
        self.fold(c.PoolConfigured(parameters=under(policy, parameters)))

    def days(self, days: int) -> None:
        """Let days pass."""
        for _ in range(days * STEPS_A_DAY):
            self._step()
            self.decided.clear()

    def sizes(self) -> dict[str, int]:
        """Bytes of what a snapshot holds: of the view, and of each decider (the categorizer's partitions together)."""
        found = {"view": len(self.view.snapshot())}
        deciders: list[Any] = [*self.deciders, *self.streams]
        for decider in deciders:
            size = len(msgspec.msgpack.encode(decider.state))
            found[decider.name] = found.get(decider.name, 0) + size
        return found

    def restart(self) -> None:
        """Go on from snapshots, as after a restart of everything."""
        self.deliver(everything=True)
        deciders = [_again(kind, one) for kind, one in zip(CLUSTER_DECIDERS.values(), self.deciders, strict=True)]
        self.restore(ClusterView.restore(self.view.snapshot()), deciders)
        self.streams = [_again(type(one), one) for one in self.streams]

    # --- three quarters of an hour -----------------------------------------------------------------------------------

    def _step(self) -> None:
        self.now_ms += STEP_MS
        self._come()
        for node, left in list(self._nodes.items()):
            self._beat(node, left)
        for job, process in self._processes.items():
            self._report(job, process)
        self.fold(c.Tick(counted_ms=self.view.counted_ms + STEP_MS))
        self.deliver(everything=True)
        for plan in list(self.view.in_flight.values()):
            self._begin(self.carry_out(plan.job))
        self.deliver(everything=True)

    def _come(self) -> None:
        """Jobs are submitted, a few of them cancelled soon or larger than any node, and spot machines come."""
        before, self._jobs = int(self._jobs), self._jobs + self._jobs_a_step
        for number in range(before, int(self._jobs)):
            job = f"job-{number}"
            spec = c.JobSpec(
                command=("python", "train.py", "--seed", str(number)),
                env=ENV,
                requests=Resources(cpu_m=20_000 if number % 10 == 7 else 500),
                model="m",
                checkpoint_mode=CheckpointMode.ON_REQUEST,
                retries=1,
            )
            self.fold(c.JobSubmitted(job=job, request=f"request-{number}", spec=spec))
            if number % 50 == 0:
                self.fold(c.JobCancelRequested(job=job, request=f"cancel-{number}"))
        before, self._spots = int(self._spots), self._spots + self._spots_a_step
        self._nodes |= {f"spot-{number}": SPOT_STEPS for number in range(before, int(self._spots))}

    def _begin(self, job: Job) -> None:
        """Its process is another one than before: it is watched."""
        process = self._processes.get(job.name)
        if not job.alive:
            if process is not None and job.phase is Phase.ENDED:
                del self._processes[job.name]
            return
        if process is None or process.incarnation != job.incarnation:
            left = process.left if process is not None and process.exit_status is None else self._rng.randint(2, 4)
            self._processes[job.name] = SimulatedJob(job.nodes[0], job.incarnation, left)
            watched = JobWatched(
                job=job.name,
                pool="pool",
                incarnation=job.incarnation,
                metric="loss",
                parameters=self.view.parameters.specon,
            )
            self._say(watched)

    def _beat(self, node: str, left: int | None) -> None:
        """A node's heartbeat. A spot machine takes nothing more at its end, and is gone when nothing runs on it."""
        leaves = left is not None and left <= 0
        here = {job: one for job, one in self._processes.items() if one.node == node}
        for process in here.values():
            process.left -= 1
            if process.exit_status is None and (leaves or process.left <= 0):
                process.exit_status = -9 if leaves else self._rng.choice((*(0,) * 19, 1))
        reports = tuple(
            h.ReplicaReport(
                job=job,
                incarnation=one.incarnation,
                state=h.ReplicaState.RUNNING if one.exit_status is None else h.ReplicaState.EXITED,
                exit_status=one.exit_status,
                cpu_m=self._rng.randint(200, 500),
                checkpoint_mode=CheckpointMode.ON_REQUEST,
            )
            for job, one in here.items()
        )
        beat = h.NodeHeartbeat(
            node=node,
            pool="pool",
            at_ms=self.now_ms,
            capacity=Resources() if leaves else CAPACITY,
            used=Resources(cpu_m=sum(one.cpu_m or 0 for one in reports)),
            replicas=reports,
            takes_jobs=True,
            usage_every_ms=usage_every_ms(self.view),
        )
        self._decide("heartbeats", 0, self.streams[0], beat)
        for job, process in here.items():
            if process.exit_status is not None:
                self._end(job)
        if left is not None:
            self._nodes[node] = left - 1
            if leaves and not self.view.nodes[node].jobs:
                del self._nodes[node]

    def _end(self, job: str) -> None:
        """A process has ended, and most jobs with it; of one in twenty the log-collector dies before it can say so."""
        self.deliver(everything=True)
        found = self.view.jobs.get(job)
        if found is None or found.phase is not Phase.RUNNING:
            del self._processes[job]
        if (found is None or found.phase is Phase.ENDED) and self._rng.random() >= 0.05:
            self._say(JobUnwatched(job=job))

    def _report(self, job: str, process: SimulatedJob) -> None:
        for _ in range(REPORTS):
            process.loss *= self._rng.uniform(0.9, 1.0)
            self._say(LossReported(job=job, incarnation=process.incarnation, value=process.loss))

    # --- the other topics ------------------------------------------------------------------------------------------------

    def _say(self, event: JobWatched | LossReported | JobUnwatched) -> None:
        partition = int(event.job.removeprefix("job-")) % PARTITIONS
        self._decide("loss", partition, self.streams[1 + partition], event)

    def _decide(self, topic: str, partition: int, decider: StreamDecider, event: Any) -> None:
        """Append to a topic, and to the pool's log what its decider makes of it."""
        received = Received(
            event=event, topic=topic, partition=partition, offset=len(self.logs[topic]), at_ms=self.now_ms
        )
        self.logs[topic].append(received)
        at = TopicPartition(topic, partition)
        if at not in self._made:
            self._made[at] = DecisionStream(decider.name, decider.logic, at)
        made = [(AT, decision.pool, decision.event) for decision in decider.step(received)]
        for one in self._made[at].mint(EPOCH, received, made):
            self.fold(one.event, one.headers)


def _again(kind: Any, decider: Any) -> Any:
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(decider.state), type=kind.state_type)
    return kind(state)
