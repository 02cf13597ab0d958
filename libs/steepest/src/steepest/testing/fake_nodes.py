"""Nodes in memory, what runs on them, and every start and end that there ever was.

It owns what is so, whatever any adapter of it was told or believes; so it outlives adapters, and forgets its history never.
It must never know failures of calls: those are the adapter's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from steepest.clock import Clock
from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.errors import RefusedError
from steepest.events.common import CheckpointRef, Resources
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest.testing.fake_training import LEFT, Training, program_of

IDLE_M = 10
"""CPU in millicores that a training uses which only waits."""

_STATES = {
    ReplicaPhase.RUNNING: ReplicaState.RUNNING,
    ReplicaPhase.EXITED: ReplicaState.EXITED,
    ReplicaPhase.GONE: ReplicaState.GONE,
}


class Moment(msgspec.Struct, frozen=True):
    """A start, or with ``exit_status`` or ``gone`` an end."""

    replica: ReplicaId
    incarnation: int
    node: str
    what: str
    exit_status: int | None = None


class Job(msgspec.Struct):
    """What is kept of a job until it is forgotten: its volume, and the incarnations of each replica."""

    volume: list[CheckpointRef] = []
    incarnations: dict[ReplicaId, dict[int, Training]] = {}


class FakeNodes:
    """Some nodes.

    Attributes:
        capacities: What each node has.
        jobs: What is not forgotten.
        lost: Nodes that start nothing.
        history: Every start and end, in order.
        overfull: Starts that took more than a node has.
        doubled: Starts of a replica while another incarnation of it ran, forgotten ones included.
    """

    def __init__(self, capacities: Mapping[str, Resources], folder: Path, clock: Clock) -> None:
        self.capacities = dict(capacities)
        self.jobs: dict[str, Job] = {}
        self.lost: dict[str, None] = {}
        self.history: list[Moment] = []
        self.overfull: list[Moment] = []
        self.doubled: list[Moment] = []
        self._folder = folder
        self._clock = clock
        self._changed = asyncio.Event()
        self._all: list[Training] = []
        self._told: dict[int, None] = {}

    # --- looking -----------------------------------------------------------------------------------------------------

    def change(self) -> asyncio.Event:
        """Set at the next change. Take it first, then look, then wait."""
        return self._changed

    def newest(self, replica: ReplicaId) -> Training | None:
        """The newest incarnation of a replica."""
        known = self.jobs[replica.job].incarnations.get(replica) if replica.job in self.jobs else None
        return known[max(known)] if known else None

    def get(self, replica: ReplicaId, incarnation: int) -> Training | None:
        """One incarnation."""
        job = self.jobs.get(replica.job)
        return job.incarnations.get(replica, {}).get(incarnation) if job else None

    def on(self, node: str) -> list[Training]:
        """All incarnations on a node that are not forgotten."""
        return [
            training
            for job in self.jobs.values()
            for known in job.incarnations.values()
            for training in known.values()
            if training.node == node
        ]

    def running(self, job: str | None = None) -> list[Training]:
        """All that runs, also what was forgotten."""
        return [training for training in self._all if training.running and job in {None, training.replica.job}]

    def finished(self, job: str) -> int:
        """How many of a job's incarnations completed their training."""
        return sum(moment.replica.job == job and moment.exit_status == 0 for moment in self.history)

    # --- acting ------------------------------------------------------------------------------------------------------

    def start(
        self, replica: ReplicaId, incarnation: int, node: str, spec: ReplicaSpec, restore: CheckpointRef | None
    ) -> None:
        """See ``Cluster.start``."""
        if node not in self.capacities:
            raise RefusedError(f"there is no node {node!r}", code="unknown-node")
        newest = self.newest(replica)
        if (known := self.get(replica, incarnation)) is not None:
            if known.node != node:
                raise RefusedError(f"{replica}.{incarnation} is on {known.node}", code="wrong-node")
            return
        if newest is not None and newest.incarnation > incarnation:
            raise RefusedError(f"{replica} is at incarnation {newest.incarnation}", code="stale-incarnation")
        if newest is not None and newest.running:
            raise RefusedError(f"{replica}.{newest.incarnation} still runs", code="still-running")
        if node in self.lost:
            raise RefusedError(f"{node} is lost", code="node-lost")
        program = program_of(spec)
        job = self.jobs.get(replica.job) or Job()
        if restore is not None and restore not in job.volume:
            raise RefusedError(f"there is no checkpoint {restore.name}", code="checkpoint-refused")
        self.jobs[replica.job] = job
        training = Training(
            replica,
            incarnation,
            node,
            spec,
            program,
            restore=restore,
            volume=job.volume,
            folder=self._folder / replica.job / f"{replica.index}.{incarnation}.{len(self._all)}",
            clock=self._clock,
            changed=self.pulse,
        )
        job.incarnations.setdefault(replica, {})[incarnation] = training
        self._all.append(training)
        self._note_start(training)

    def forget(self, name: str) -> None:
        """See ``Cluster.forget``."""
        job = self.jobs.get(name)
        for known in job.incarnations.values() if job else ():
            for training in known.values():
                if training.running:
                    raise RefusedError(f"{training.replica}.{training.incarnation} runs", code="still-running")
        self.jobs.pop(name, None)
        self.pulse()

    def beat(self, node: str, pool: str) -> NodeHeartbeat:
        """What a node says of itself: the newest incarnation of each replica on it."""
        newest = [training for training in self.on(node) if self.newest(training.replica) is training]
        return NodeHeartbeat(
            node=node,
            pool=pool,
            at_ms=self._clock.now_ms(),
            capacity=self.capacities[node],
            used=Resources(cpu_m=sum(self._used_m(training) for training in newest)),
            replicas=tuple(self._report(training) for training in newest),
        )

    async def aclose(self) -> None:
        """End everything, for the test is over."""
        for training in self._all:
            await training.aclose()

    def _report(self, training: Training) -> ReplicaReport:
        volume = self.jobs[training.replica.job].volume
        return ReplicaReport(
            job=training.replica.job,
            replica=training.replica.index,
            incarnation=training.incarnation,
            state=_STATES[training.phase],
            exit_status=training.exit_status,
            cpu_m=self._used_m(training),
            step=training.step,
            checkpoint_mode=training.mode,
            checkpoint=volume[-1] if volume else None,
        )

    def _used_m(self, training: Training) -> int:
        if not training.running:
            return 0
        wanted = self.capacities[training.node].cpu_m if training.program.burn else IDLE_M
        return wanted if training.limit_m is None else min(wanted, training.limit_m)

    def _note_start(self, training: Training) -> None:
        moment = Moment(training.replica, training.incarnation, training.node, "start")
        self.history.append(moment)
        if sum(other.replica == training.replica for other in self.running()) > 1:
            self.doubled.append(moment)
        taken = Resources()
        for other in self.running():
            if other.node == training.node:
                taken += other.spec.requests
        if not taken.fits(self.capacities[training.node]):
            self.overfull.append(moment)
        self.pulse()

    def pulse(self) -> None:
        """Something has changed: note the ends, and wake who waits."""
        for number, training in enumerate(self._all):
            if not training.running and number not in self._told:
                self._told[number] = None
                what = "left" if training.exit_status == LEFT else "end"
                self.history.append(
                    Moment(training.replica, training.incarnation, training.node, what, training.exit_status)
                )
        fired, self._changed = self._changed, asyncio.Event()
        fired.set()
