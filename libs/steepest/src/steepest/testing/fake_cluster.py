"""An adapter of the cluster port over nodes in memory, which fails as it is told.

It owns what callers see: waiting, refusals, and what a test does to a call before or after it takes effect. What is so
is in :mod:`steepest.testing.fake_nodes`, which several adapters share, as several processes share a real cluster.

A call that is to fail is met by a :data:`Deed` at one of two moments: before it takes effect, or after. The deed may raise
what the caller is to see, wait for as long as it likes, or kill the caller::

    cluster.meet("start", When.AFTER, uncertain)       # it happened, and nobody said so
    gate = Gate()
    cluster.meet("stop", When.BEFORE, gate)            # held just before it acts, until gate.open()
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from steepest.clock import Clock
from steepest.cluster.port import ReplicaFiles, ReplicaId, ReplicaSpec, ReplicaStatus, Stopped
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events.common import CheckpointRef
from steepest.events.heartbeat import NodeHeartbeat
from steepest.testing.fake_nodes import FakeNodes
from steepest.testing.fake_training import Request, Training
from steepest.testing.life import Life

T = TypeVar("T")


class When(enum.Enum):
    """A moment of a call."""

    BEFORE = "before"
    AFTER = "after"


Deed = Callable[[], Awaitable[None]]
"""What a test does to a call."""

EveryDeed = Callable[[str, When], Awaitable[None]]
"""What a test does to every call; it is told the call's name."""


async def refuse() -> None:
    """The cluster says no."""
    raise RefusedError("a test refuses it")


async def uncertain() -> None:
    """The cluster does not say what became of it."""
    raise UncertainError("a test says nothing of it")


async def hang() -> None:
    """The cluster never answers."""
    await asyncio.Event().wait()


async def stumble() -> None:
    """The adapter has a bug."""
    raise ZeroDivisionError("a test's bug")


class Gate:
    """Holds a call until it is opened."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._opened = asyncio.Event()

    async def __call__(self) -> None:
        """Be held."""
        self.reached.set()
        await self._opened.wait()

    def open(self) -> None:
        """Let the call go on."""
        self._opened.set()


class FakeCluster:
    """A :class:`~steepest.cluster.port.Cluster` in memory.

    Args:
        nodes: What is so; share it to have several adapters of one cluster.
        pool: The pool's name, for the heartbeats.
        clock: For waiting.
        heartbeat_s: The heartbeats' period.
        every: Done to every call, before and after.
        life: Of the process whose adapter it is.
    """

    def __init__(
        self,
        nodes: FakeNodes,
        pool: str,
        clock: Clock,
        *,
        heartbeat_s: float = 1.0,
        every: EveryDeed | None = None,
        life: Life | None = None,
    ) -> None:
        self.nodes = nodes
        self._pool = pool
        self._clock = clock
        self._heartbeat_s = heartbeat_s
        self._every = every
        self._life = life or Life()
        self._deeds: dict[tuple[str, When], deque[Deed]] = {}
        self._closed = False

    def meet(self, call: str, when: When, *deeds: Deed) -> None:
        """Do these to the next calls of that name, one each."""
        self._deeds.setdefault((call, when), deque()).extend(deeds)

    # --- the port ----------------------------------------------------------------------------------------------------

    async def start(
        self, replica: ReplicaId, incarnation: int, node: str, spec: ReplicaSpec, restore: CheckpointRef | None
    ) -> None:
        """See ``Cluster.start``."""

        async def effect() -> None:
            self.nodes.start(replica, incarnation, node, spec, restore)

        await self._call("start", effect)

    async def checkpoint(
        self, replica: ReplicaId, incarnation: int, *, request: str, hold_s: float, timeout_s: float
    ) -> CheckpointRef:
        """See ``Cluster.checkpoint``."""
        return await self._call(
            "checkpoint", lambda: self._checkpoint(replica, incarnation, Request(request, hold_s), timeout_s)
        )

    async def _checkpoint(
        self, replica: ReplicaId, incarnation: int, request: Request, timeout_s: float
    ) -> CheckpointRef:
        training = self._running(replica, incarnation)
        training.ask(request)
        try:
            answered = await self._wait(lambda: request.name in training.answers or not training.running, timeout_s)
            return _accepted(training, request, answered=answered)
        except BaseException:
            training.release(request.name)
            raise

    async def release(self, replica: ReplicaId, incarnation: int, *, request: str) -> None:
        """See ``Cluster.release``."""

        async def effect() -> None:
            training = self.nodes.get(replica, incarnation)
            if training is not None:
                training.release(request)

        await self._call("release", effect)

    async def stop(self, replica: ReplicaId, incarnation: int, *, grace_s: float) -> Stopped:
        """See ``Cluster.stop``."""
        return await self._call("stop", lambda: self._stop(replica, incarnation, grace_s))

    async def _stop(self, replica: ReplicaId, incarnation: int, grace_s: float) -> Stopped:
        training = self.nodes.get(replica, incarnation)
        if training is None:
            raise RefusedError(f"{replica}.{incarnation} was never started", code="unknown-incarnation")
        if training.running:
            training.terminate()
            if not await self._wait(lambda: not training.running, grace_s):
                training.kill()
        return Stopped(exit_status=training.exit_status, step=training.step, checkpoint=self._saved(replica))

    async def limit(self, replica: ReplicaId, incarnation: int, cpu_limit_m: int | None) -> None:
        """See ``Cluster.limit``."""

        async def effect() -> None:
            self._running(replica, incarnation).limit_m = cpu_limit_m

        await self._call("limit", effect)

    async def lookup(self, replica: ReplicaId) -> ReplicaStatus | None:
        """See ``Cluster.lookup``."""

        async def effect() -> ReplicaStatus | None:
            training = self.nodes.newest(replica)
            return None if training is None else self._status(training)

        return await self._call("lookup", effect)

    async def wait_for_step(self, replica: ReplicaId, incarnation: int, *, at_least: int, timeout_s: float) -> int:
        """See ``Cluster.wait_for_step``."""
        return await self._call("wait_for_step", lambda: self._reach(replica, incarnation, at_least, timeout_s))

    async def _reach(self, replica: ReplicaId, incarnation: int, at_least: int, timeout_s: float) -> int:
        training = self.nodes.get(replica, incarnation)
        if training is None:
            raise RefusedError(f"{replica}.{incarnation} was never started", code="not-running")
        await self._wait(lambda: (training.step or -1) >= at_least or not training.running, timeout_s)
        if training.step is not None and training.step >= at_least:
            return training.step
        if training.running:
            raise RefusedError(f"{replica} did not reach step {at_least}", code="step-timeout")
        if training.exit_status != 0:
            raise RefusedError(f"{replica} ended with status {training.exit_status}", code="ended")
        return training.step or training.restored_step or 0

    async def heartbeats(self) -> AsyncIterator[NodeHeartbeat]:
        """See ``Cluster.heartbeats``."""
        told: dict[str, list[object]] = {}
        due_s = self._clock.monotonic()
        while not self._closed:
            change = self.nodes.change()
            is_due = self._clock.monotonic() >= due_s
            due_s += self._heartbeat_s if is_due else 0.0
            for node in self.nodes.capacities:
                news = [(one.incarnation, one.replica, one.phase, one.mode) for one in self.nodes.on(node)]
                if is_due or news != told.get(node):
                    told[node] = list(news)
                    yield self.nodes.beat(node, self._pool)
            await self._next(change, due_s - self._clock.monotonic())

    def files(self, node: str) -> Sequence[ReplicaFiles]:
        """See ``Cluster.files``."""
        return [
            ReplicaFiles(
                replica=training.replica,
                incarnation=training.incarnation,
                output=training.output,
                reports=training.reports,
            )
            for training in self.nodes.on(node)
        ]

    async def forget(self, job: str) -> None:
        """See ``Cluster.forget``."""

        async def effect() -> None:
            self.nodes.forget(job)

        await self._call("forget", effect)

    async def close(self) -> None:
        """See ``Cluster.close``."""
        self._closed = True
        self.nodes.pulse()

    # --- what calls have in common -----------------------------------------------------------------------------------

    async def _call(self, name: str, effect: Callable[[], Awaitable[T]]) -> T:
        if self._closed:
            raise ClusterError("the cluster was closed", code="closed")
        await self._meet(name, When.BEFORE)
        done = await effect()
        await self._meet(name, When.AFTER)
        return done

    async def _meet(self, name: str, when: When) -> None:
        await self._life.go()
        if self._every is not None:
            await self._every(name, when)
        deeds = self._deeds.get((name, when))
        if deeds:
            await deeds.popleft()()
        await self._life.go()

    def _running(self, replica: ReplicaId, incarnation: int) -> Training:
        training = self.nodes.get(replica, incarnation)
        if training is None or not training.running:
            raise RefusedError(f"{replica}.{incarnation} does not run", code="not-running")
        return training

    def _saved(self, replica: ReplicaId) -> CheckpointRef | None:
        job = self.nodes.jobs.get(replica.job)
        return job.volume[-1] if job and job.volume else None

    def _status(self, training: Training) -> ReplicaStatus:
        return ReplicaStatus(
            replica=training.replica,
            incarnation=training.incarnation,
            node=training.node,
            phase=training.phase,
            exit_status=training.exit_status,
            step=training.step,
            restored_step=training.restored_step,
            checkpoint=self._saved(training.replica),
        )

    async def _wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Whether a condition came to hold in time."""
        deadline = self._clock.monotonic() + timeout_s
        while True:
            change = self.nodes.change()
            if condition():
                return True
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0:
                return False
            await self._next(change, left_s)

    async def _next(self, change: asyncio.Event, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, timeout_s)):
                await change.wait()
        await self._life.go()


def _accepted(training: Training, request: Request, *, answered: bool) -> CheckpointRef:
    match training.answers.get(request.name):
        case CheckpointRef() as saved:
            return saved
        case str(why):
            code = "checkpoint-invalid" if why == "invalid" else "checkpoint-refused"
            raise RefusedError(f"{training.replica}: {why}", code=code)
    raise RefusedError(f"{training.replica} did not answer", code="not-running" if answered else "checkpoint-timeout")
