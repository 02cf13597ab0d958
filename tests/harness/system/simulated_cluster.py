"""The simulated nodes behind the cluster port: calls that wait in virtual time.

It owns the translation of callbacks into awaitables, and the heartbeats. The state and the effect of each call are in
:mod:`steepest_lab.simulated.nodes`, which several adapters share as several processes share a real cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TextIO, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from steepest.clock import Clock
from steepest.cluster.port import MetricsPlace, NodeTerms, ReplicaFiles, ReplicaId, ReplicaSpec, ReplicaStatus, Stopped
from steepest.errors import ClusterError, RefusedError
from steepest.events.common import CheckpointRef
from steepest.events.heartbeat import NodeHeartbeat
from steepest_lab.simulated.nodes import SimulatedNodes, Then
from steepest_lab.simulated.training import Training, Witness

T = TypeVar("T")


class FileWitness(Witness):
    """Writes the output and reports of trainings to files, and signals every change.

    Attributes:
        changed: Set at the next change. To miss none: take it first, then look, then wait.
    """

    def __init__(self, folder: Path | None, clock: Clock) -> None:
        """Write below ``folder``; None: write nothing."""
        self.changed = asyncio.Event()
        self._folder = folder
        self._clock = clock
        self._begun = 0
        self._folders: dict[Training, Path] = {}
        self._reports: dict[Training, TextIO] = {}

    def files(self, training: Training) -> ReplicaFiles:
        """The files of a training.

        Raises:
            ClusterError: It has not begun.
        """
        assert self._folder is not None
        if (folder := self._folders.get(training)) is None:
            raise ClusterError(f"{training.replica}.{training.incarnation} has not begun", code="not-begun")
        return ReplicaFiles(
            replica=training.replica,
            incarnation=training.incarnation,
            output=folder / "output.log",
            reports=folder / "reports.jsonl",
            below=self._folder,
        )

    def begins(self, training: Training) -> None:
        """See ``Witness``."""
        if self._folder is None:
            self.pulse()
            return
        self._begun += 1
        replica = training.replica
        folder = self._folder / replica.job / f"{replica.index}.{training.incarnation}.{self._begun}"
        folder.mkdir(parents=True)
        self._folders[training] = folder
        in_gang = f" {replica.index}" if training.spec.gang else ""
        (folder / "output.log").write_text(f"begins {replica.job} {training.incarnation}{in_gang}\n")
        self._reports[training] = (folder / "reports.jsonl").open("a")
        self.pulse()

    def reports(self, training: Training, step: int, loss: float | None) -> None:
        """See ``Witness``."""
        if self._folder is None:
            return
        metrics = {} if loss is None else {"loss": loss}
        report = {"step": step, "at_ms": self._clock.now_ms(), "metrics": metrics}
        self._reports[training].write(json.dumps(report) + "\n")
        self._reports[training].flush()

    def changes(self, training: Training) -> None:
        """See ``Witness``."""
        if not training.running and (reports := self._reports.pop(training, None)) is not None:
            reports.close()
        self.pulse()

    def pulse(self) -> None:
        """Wake all waiters."""
        fired, self.changed = self.changed, asyncio.Event()
        fired.set()


class SimulatedCluster:
    """A :class:`~steepest.cluster.port.Cluster` in virtual time."""

    def __init__(
        self, nodes: SimulatedNodes, witness: FileWitness, pool: str, clock: Clock, *, heartbeat_s: float = 1.0
    ) -> None:
        """An adapter.

        Args:
            nodes: The state; share it between adapters of one cluster.
            witness: The witness of ``nodes``.
            pool: The pool's name, for the heartbeats.
            clock: The clock that determines waiting times.
            heartbeat_s: The heartbeats' period in seconds.
        """
        self._nodes = nodes
        self._witness = witness
        self._pool = pool
        self._clock = clock
        self._heartbeat_s = heartbeat_s
        self._closed = False
        self.kept: dict[ReplicaId, tuple[int, str]] = {}

    async def start(
        self, replica: ReplicaId, incarnation: int, node: str, spec: ReplicaSpec, restore: CheckpointRef | None
    ) -> None:
        """See ``Cluster.start``."""
        self._refuse_closed()
        self._nodes.start(replica, incarnation, node, spec, restore)

    async def checkpoint(
        self, replica: ReplicaId, incarnation: int, *, request: str, hold_s: float, timeout_s: float
    ) -> CheckpointRef:
        """See ``Cluster.checkpoint``."""

        def ask(then: Then[CheckpointRef]) -> None:
            self._nodes.checkpoint(replica, incarnation, request=request, hold_s=hold_s, timeout_s=timeout_s, then=then)

        try:
            return await self._result(ask)
        except asyncio.CancelledError:
            self._nodes.release(replica, incarnation, request=request)
            raise

    async def release(self, replica: ReplicaId, incarnation: int, *, request: str) -> None:
        """See ``Cluster.release``."""
        self._refuse_closed()
        self._nodes.release(replica, incarnation, request=request)

    async def keep(self, replica: ReplicaId, incarnation: int, checkpoint: str) -> None:
        """See ``Cluster.keep``: nothing is deleted here."""
        self._refuse_closed()
        self.kept[replica] = (incarnation, checkpoint)

    async def stop(self, replica: ReplicaId, incarnation: int, *, grace_s: float) -> Stopped:
        """See ``Cluster.stop``."""
        return await self._result(lambda then: self._nodes.stop(replica, incarnation, grace_s=grace_s, then=then))

    async def limit(
        self,
        replica: ReplicaId,
        incarnation: int,
        cpu_limit_m: int | None,
        *,
        memory_limit_mib: int | UnsetType | None = UNSET,
    ) -> None:
        """See ``Cluster.limit``."""
        self._refuse_closed()
        if isinstance(memory_limit_mib, int):
            raise RefusedError("simulated nodes cannot cap memory", code="limit-unsupported")
        self._nodes.limit(replica, incarnation, cpu_limit_m)

    async def lookup(self, replica: ReplicaId, *, verify: bool = True) -> ReplicaStatus | None:
        """See ``Cluster.lookup``."""
        self._refuse_closed()
        status = self._nodes.lookup(replica)
        return status if verify or status is None else msgspec.structs.replace(status, checkpoint=None)

    async def wait_for_step(self, replica: ReplicaId, incarnation: int, *, at_least: int, timeout_s: float) -> int:
        """See ``Cluster.wait_for_step``."""
        return await self._result(
            lambda then: self._nodes.wait_for_step(
                replica, incarnation, at_least=at_least, timeout_s=timeout_s, then=then
            )
        )

    async def heartbeats(self) -> AsyncIterator[NodeHeartbeat]:
        """See ``Cluster.heartbeats``."""
        reported: dict[str, list[object]] = {}
        due_s = self._clock.monotonic()
        while not self._closed:
            change = self._witness.changed
            is_due = self._clock.monotonic() >= due_s
            due_s += self._heartbeat_s if is_due else 0.0
            for node in self._nodes.nodes:
                on = self._nodes.on(node)
                state: list[object] = [(one.incarnation, one.replica, one.phase, one.mode) for one in on]
                if is_due or state != reported.get(node):
                    reported[node] = state
                    yield self._nodes.beat(node, self._pool, self._clock.now_ms())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, due_s - self._clock.monotonic())):
                    await change.wait()

    def node_terms(self, node: str) -> NodeTerms | None:
        """See ``Cluster.node_terms``."""
        del node
        return None

    def silence_s(self) -> float:
        """See ``Cluster.silence_s``: there is no background loop."""
        return 0.0

    def files(self, node: str | None = None, *, job: str | None = None) -> Sequence[ReplicaFiles]:
        """See ``Cluster.files``."""
        nodes = self._nodes.nodes if node is None else (node,)
        found = [self._witness.files(training) for name in nodes for training in self._nodes.on(name)]
        return [each for each in found if job is None or each.replica.job == job]

    def metrics_folder(self, job: str, asked: str) -> MetricsPlace:
        """See ``Cluster.metrics_folder``."""
        del job
        return MetricsPlace(Path(asked), Path(asked))

    async def forget(self, job: str) -> None:
        """See ``Cluster.forget``."""
        self._refuse_closed()
        self._nodes.forget(job)
        self._witness.pulse()

    async def close(self) -> None:
        """See ``Cluster.close``."""
        self._closed = True
        self._witness.pulse()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ClusterError("the cluster was closed", code="closed")

    async def _result(self, call: Callable[[Then[T]], None]) -> T:
        """Await the result of a call, or raise its error."""
        self._refuse_closed()
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def then(outcome: T | ClusterError) -> None:
            if result.done():
                return
            if isinstance(outcome, ClusterError):
                result.set_exception(outcome)
            else:
                result.set_result(outcome)

        call(then)
        return await result
