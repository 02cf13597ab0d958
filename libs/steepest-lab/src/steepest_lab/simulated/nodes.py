"""The state of the simulated nodes and of everything that runs on them, shared by all adapters of a simulated cluster.

It owns which incarnation may start, and every call of the cluster port, whose result a callback gets later. It must never
know tasks or coroutines: a simulation uses the callbacks directly, and for tests of the live services
:mod:`tests.harness.system.simulated_cluster` turns them into awaitables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec

from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaSpec, ReplicaStatus, Stopped
from steepest.errors import ClusterError, RefusedError
from steepest.events.common import CheckpointMode, CheckpointRef, Resources
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest_lab.simulated.lockstep import Gangs, Lockstep
from steepest_lab.simulated.model import Model
from steepest_lab.simulated.node import SimulatedNode
from steepest_lab.simulated.timeline import Timeline
from steepest_lab.simulated.training import Request, Training, Witness

T = TypeVar("T")

Then = Callable[[T | ClusterError], None]
"""Called once, with the result of a call or the error that it raises."""


class End(Protocol):
    """Called when a wait is over."""

    def __call__(self, *, in_time: bool) -> None:
        """``in_time``: the condition held before the timeout."""


_STATES = {
    ReplicaPhase.RUNNING: ReplicaState.RUNNING,
    ReplicaPhase.EXITED: ReplicaState.EXITED,
    ReplicaPhase.GONE: ReplicaState.GONE,
}


class KnownJob(msgspec.Struct):
    """The records of a job until it is forgotten: its volume, the incarnations of each replica, its gang by incarnation."""

    volume: list[CheckpointRef] = []
    incarnations: dict[ReplicaId, dict[int, Training]] = {}
    gangs: dict[int, Lockstep] = {}

    def newest(self) -> list[Training]:
        """The newest incarnation of each replica."""
        return [known[max(known)] for known in self.incarnations.values()]


class SimulatedNodes:
    """A set of simulated nodes.

    Attributes:
        nodes: By name.
        jobs: The jobs that are not forgotten.
        gangs: The gangs that run, and the links that they exchange over.
    """

    def __init__(
        self,
        nodes: Sequence[SimulatedNode],
        model_of: Callable[[ReplicaId, ReplicaSpec], Model],
        timeline: Timeline,
        *,
        witness: Witness | None = None,
        gangs: Gangs | None = None,
        gang_of: Callable[[ReplicaId], Lockstep | None] = lambda _: None,
    ) -> None:
        """Nodes on which nothing runs.

        Args:
            nodes: All of them.
            model_of: Returns a replica's model; raises ``no-such-program`` if it has none.
            timeline: The source of time and timers.
            witness: Observes every training.
            gangs: Where gangs meet, with the links between the nodes; None: there are links without end.
            gang_of: The gang of a replica that is a job of its own; None: it has none.
        """
        self.gangs = gangs or Gangs()
        self._gang_of = gang_of
        self.nodes = {node.name: node for node in nodes}
        self.jobs: dict[str, KnownJob] = {}
        self.timeline = timeline
        self._model_of = model_of
        self._witness = witness or Witness()
        self._on: dict[str, dict[Training, None]] = {node.name: {} for node in nodes}
        self._forgotten_m_s = self._forgotten_gpu_s = 0.0
        self._beaten: dict[Training, tuple[float, float]] = {}

    # --- looking -----------------------------------------------------------------------------------------------------

    def newest(self, replica: ReplicaId) -> Training | None:
        """The newest incarnation of a replica."""
        job = self.jobs.get(replica.job)
        known = job.incarnations.get(replica) if job is not None else None
        return known[max(known)] if known else None

    def get(self, replica: ReplicaId, incarnation: int) -> Training | None:
        """One incarnation."""
        job = self.jobs.get(replica.job)
        return job.incarnations.get(replica, {}).get(incarnation) if job else None

    def on(self, node: str) -> list[Training]:
        """All incarnations on a node that are not forgotten."""
        return list(self._on[node])

    def lookup(self, replica: ReplicaId) -> ReplicaStatus | None:
        """See ``Cluster.lookup``."""
        training = self.newest(replica)
        return None if training is None else _status(training)

    def beat(self, node: str, pool: str, at_ms: int, *, progress_every_ms: int = 0) -> NodeHeartbeat:
        """A node's heartbeat: the newest incarnation of each replica on it, and the CPU since the last heartbeat."""
        reports = [self._report(training) for training in self._on[node] if self.newest(training.replica) is training]
        used = Resources(cpu_m=sum([report.cpu_m or 0 for report in reports]))
        capacity = self.nodes[node].capacity
        return NodeHeartbeat(
            node=node,
            pool=pool,
            at_ms=at_ms,
            capacity=capacity,
            used=used,
            replicas=tuple(reports),
            takes_jobs=True,
            progress_every_ms=progress_every_ms,
        )

    def cpu_m_s(self) -> float:
        """CPU used by all trainings up to now, forgotten ones included, in millicore-seconds."""
        now_s = self.timeline.now_s()
        return self._forgotten_m_s + sum(_cpu_m_s(one, now_s) for known in self._on.values() for one in known)

    def gpu_s(self) -> float:
        """GPU-seconds in which replicas made steps up to now, forgotten ones included."""
        now_s = self.timeline.now_s()
        return self._forgotten_gpu_s + sum(
            (one.stepped_s + (now_s - one.since_s if one.pace > 0.0 else 0.0)) * one.spec.requests.all_gpus_m / 1000
            for known in self._on.values()
            for one in known
        )

    # --- acting ------------------------------------------------------------------------------------------------------

    def start(
        self, replica: ReplicaId, incarnation: int, node: str, spec: ReplicaSpec, restore: CheckpointRef | None
    ) -> None:
        """See ``Cluster.start``."""
        if node not in self.nodes:
            raise RefusedError(f"there is no node {node!r}", code="unknown-node")
        if (known := self.get(replica, incarnation)) is not None:
            if known.node != node:
                raise RefusedError(f"{replica}.{incarnation} is on {known.node}", code="wrong-node")
            return
        for other in self.jobs[replica.job].newest() if replica.job in self.jobs else ():
            if other.incarnation > incarnation:
                raise RefusedError(f"{other.replica} is at incarnation {other.incarnation}", code="stale-incarnation")
            if other.incarnation < incarnation and other.running:
                raise RefusedError(f"{other.replica}.{other.incarnation} still runs", code="still-running")
        if self.nodes[node].lost:
            raise RefusedError(f"{node} is lost", code="node-lost")
        model = self._model_of(replica, spec)
        job = self.jobs.get(replica.job) or KnownJob()
        if restore is not None and restore not in job.volume:
            raise RefusedError(f"there is no checkpoint {restore.name}", code="checkpoint-refused")
        self.jobs[replica.job] = job
        self._make(replica, incarnation, node, spec, restore=restore, model=model).begin()

    def remember(self, job: str, checkpoint: CheckpointRef) -> None:
        """A checkpoint was saved elsewhere, for example in a recording, by a job of which nothing runs."""
        self.jobs.setdefault(job, KnownJob()).volume.append(checkpoint)

    def adopt(
        self,
        replica: ReplicaId,
        incarnation: int,
        node: str,
        spec: ReplicaSpec,
        *,
        step: int,
        mode: CheckpointMode,
        checkpoint: CheckpointRef | None,
    ) -> None:
        """Continue an incarnation that was started elsewhere, for example in a recording, after ``step``."""
        job = self.jobs.setdefault(replica.job, KnownJob())
        job.volume += [checkpoint] if checkpoint and checkpoint not in job.volume else []
        training = self._make(replica, incarnation, node, spec, restore=None, model=self._model_of(replica, spec))
        training.continue_from(step, mode)

    def checkpoint(
        self,
        replica: ReplicaId,
        incarnation: int,
        *,
        request: str,
        hold_s: float,
        timeout_s: float,
        then: Then[CheckpointRef],
    ) -> None:
        """See ``Cluster.checkpoint``."""
        training = self._running(replica, incarnation)

        def end(*, in_time: bool) -> None:
            answer = _accepted(training, request, answered=in_time)
            if isinstance(answer, ClusterError):
                training.release(request)
            then(answer)

        training.ask(Request(request, hold_s))
        self._wait(training, lambda: request in training.answers or not training.running, timeout_s, end)

    def release(self, replica: ReplicaId, incarnation: int, *, request: str) -> None:
        """See ``Cluster.release``."""
        training = self.get(replica, incarnation)
        if training is not None:
            training.release(request)

    def stop(self, replica: ReplicaId, incarnation: int, *, grace_s: float, then: Then[Stopped]) -> None:
        """See ``Cluster.stop``."""
        training = self.get(replica, incarnation)
        if training is None:
            raise RefusedError(f"{replica}.{incarnation} was never started", code="unknown-incarnation")

        def end(*, in_time: bool) -> None:
            if not in_time:
                training.kill()
            then(_status(training))

        training.terminate()
        self._wait(training, lambda: not training.running, grace_s, end)

    def limit(self, replica: ReplicaId, incarnation: int, cpu_limit_m: int | None) -> None:
        """See ``Cluster.limit``."""
        training = self._running(replica, incarnation)
        training.limit_m = cpu_limit_m
        self.nodes[training.node].share()

    def wait_for_step(
        self, replica: ReplicaId, incarnation: int, *, at_least: int, timeout_s: float, then: Then[int]
    ) -> None:
        """See ``Cluster.wait_for_step``."""
        training = self.get(replica, incarnation)
        if training is None:
            raise RefusedError(f"{replica}.{incarnation} was never started", code="not-running")

        def end(*, in_time: bool) -> None:  # noqa: ARG001 - the training's own state decides
            then(_reached(training, at_least))

        self._wait(training, lambda: (training.step or -1) >= at_least or not training.running, timeout_s, end)

    def forget(self, name: str) -> None:
        """See ``Cluster.forget``."""
        job = self.jobs.get(name)
        trainings = [one for known in job.incarnations.values() for one in known.values()] if job else []
        for training in trainings:
            if training.running:
                raise RefusedError(f"{training.replica}.{training.incarnation} runs", code="still-running")
        for training in trainings:
            del self._on[training.node][training]
            self._forgotten_m_s += training.cpu_m_s
            self._forgotten_gpu_s += training.stepped_s * training.spec.requests.all_gpus_m / 1000
            self._beaten.pop(training, None)
        self.jobs.pop(name, None)

    def lose(self, node: str) -> None:
        """A node fails: its replicas are gone, and it starts nothing until :meth:`repair`."""
        self.nodes[node].lost = True
        for training in self.on(node):
            training.lose()

    def repair(self, node: str) -> None:
        """A lost node is back, with nothing running on it."""
        self.nodes[node].lost = False

    def _make(
        self,
        replica: ReplicaId,
        incarnation: int,
        node: str,
        spec: ReplicaSpec,
        *,
        restore: CheckpointRef | None,
        model: Model,
    ) -> Training:
        job = self.jobs[replica.job]
        gang = self._gang_of(replica)
        if spec.gang is not None and model.lockstep:
            gang = job.gangs.setdefault(incarnation, Lockstep(spec.gang.world_size, self.gangs))
        training = Training(
            replica,
            incarnation,
            self.nodes[node],
            spec,
            model,
            restore=restore,
            volume=job.volume,
            timeline=self.timeline,
            witness=self._witness,
            gang=gang,
        )
        job.incarnations.setdefault(replica, {})[incarnation] = training
        self._on[node][training] = None
        return training

    # --- what these have in common -----------------------------------------------------------------------------------

    def _running(self, replica: ReplicaId, incarnation: int) -> Training:
        training = self.get(replica, incarnation)
        if training is None or not training.running:
            raise RefusedError(f"{replica}.{incarnation} does not run", code="not-running")
        return training

    def _wait(self, training: Training, condition: Callable[[], bool], timeout_s: float, end: End) -> None:
        """Call ``end`` once: when ``condition`` holds, or at the timeout."""
        over = False

        def look() -> bool:
            nonlocal over
            if not over and condition():
                over = True
                timer.cancel()
                end(in_time=True)
            return over

        def time_out() -> None:
            nonlocal over
            if not over:
                over = True
                end(in_time=condition())

        timer = self.timeline.call_at(self.timeline.now_s() + timeout_s, time_out)
        training.watch(look)

    def _report(self, training: Training) -> ReplicaReport:
        now_s = self.timeline.now_s()
        used_m_s = _cpu_m_s(training, now_s)
        says, step = training.model.says, training.step_at(now_s)
        total = training.model.total if training.mode else None
        return ReplicaReport(
            job=training.replica.job,
            replica=training.replica.index,
            incarnation=training.incarnation,
            state=_STATES[training.phase],
            exit_status=training.exit_status,
            cpu_m=self._used_m(training, now_s, used_m_s),
            step=step if says == "steps" else None,
            total=total if says == "steps" else None,
            epoch=step if says == "epochs" else None,
            epochs=total if says == "epochs" else None,
            cpu_ms=round(used_m_s),
            loss=training.loss,
            checkpoint_mode=training.mode,
            checkpoint=_newest_checkpoint(training),
            reason=training.end_reason,
        )

    def _used_m(self, training: Training, now_s: float, used_m_s: float) -> int:
        """Mean CPU since the previous heartbeat in millicores, as a real node measures it."""
        if not training.running:
            return 0
        before_s, before_m_s = self._beaten.get(training, (now_s, 0.0))
        if now_s <= before_s:
            self._beaten.setdefault(training, (now_s, used_m_s))
            return round(training.share_m)
        self._beaten[training] = (now_s, used_m_s)
        return round((used_m_s - before_m_s) / (now_s - before_s))


def running(nodes: SimulatedNodes) -> Iterator[Training]:
    """All incarnations that run and are not forgotten."""
    for node in nodes.nodes:
        yield from (training for training in nodes.on(node) if training.running)


def _cpu_m_s(training: Training, now_s: float) -> float:
    return training.cpu_m_s + (now_s - training.since_s) * training.share_m


def _status(training: Training) -> ReplicaStatus:
    return ReplicaStatus(
        replica=training.replica,
        incarnation=training.incarnation,
        node=training.node,
        phase=training.phase,
        exit_status=training.exit_status,
        reason=training.end_reason,
        step=training.step,
        restored_step=training.restored_step,
        checkpoint=_newest_checkpoint(training),
    )


def _newest_checkpoint(training: Training) -> CheckpointRef | None:
    return training.volume[-1] if training.volume else None


def _accepted(training: Training, request: str, *, answered: bool) -> CheckpointRef | ClusterError:
    match training.answers.get(request):
        case CheckpointRef() as saved:
            return saved
        case str(why):
            code = "checkpoint-invalid" if why == "invalid" else "checkpoint-refused"
            return RefusedError(f"{training.replica}: {why}", code=code)
    return RefusedError(f"{training.replica} did not answer", code="not-running" if answered else "checkpoint-timeout")


def _reached(training: Training, at_least: int) -> int | ClusterError:
    if training.step is not None and training.step >= at_least:
        return training.step
    if training.running:
        return RefusedError(f"{training.replica} did not reach step {at_least}", code="step-timeout")
    if training.exit_status != 0:
        return RefusedError(f"{training.replica} ended with status {training.exit_status}", code="ended")
    return training.step or training.restored_step or 0
