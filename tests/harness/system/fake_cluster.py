"""The simulated cluster with injected faults.

It owns what a test does to a call before or after it takes effect; :mod:`tests.harness.system.fake_nodes` owns the
nodes' state.

A :data:`Hook` meets a call at one of two moments: before it takes effect, or after. The hook may raise an error for the
caller, wait, or kill the caller::

    cluster.hook("start", When.AFTER, uncertain)       # it took effect, and the caller gets no answer
    gate = Gate()
    cluster.hook("stop", When.BEFORE, gate)            # held just before it acts, until gate.open()
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import UNSET, UnsetType
from tests.harness.system.fake_nodes import FakeNodes
from tests.harness.system.life import Life
from tests.harness.system.simulated_cluster import SimulatedCluster

from steepest.clock import Clock
from steepest.cluster.port import ReplicaId, ReplicaSpec, ReplicaStatus, Stopped
from steepest.errors import RefusedError, UncertainError
from steepest.events.common import CheckpointRef

T = TypeVar("T")


class When(enum.Enum):
    """A moment of a call."""

    BEFORE = "before"
    AFTER = "after"


Hook = Callable[[], Awaitable[None]]
"""What a test does to a call."""

EveryHook = Callable[[str, When], Awaitable[None]]
"""What a test does to every call; it gets the call's name."""


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


class FakeCluster(SimulatedCluster):
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
        every: EveryHook | None = None,
        life: Life | None = None,
    ) -> None:
        super().__init__(nodes, nodes.witness, pool, clock, heartbeat_s=heartbeat_s)
        self.nodes = nodes
        self._every = every
        self._life = life or Life()
        self._hooks: dict[tuple[str, When], deque[Hook]] = {}

    def hook(self, call: str, when: When, *hooks: Hook) -> None:
        """Do these to the next calls of that name, one each."""
        self._hooks.setdefault((call, when), deque()).extend(hooks)

    async def start(
        self, replica: ReplicaId, incarnation: int, node: str, spec: ReplicaSpec, restore: CheckpointRef | None
    ) -> None:
        """See ``Cluster.start``."""
        await self._call("start", lambda: super(FakeCluster, self).start(replica, incarnation, node, spec, restore))

    async def checkpoint(
        self, replica: ReplicaId, incarnation: int, *, request: str, hold_s: float, timeout_s: float
    ) -> CheckpointRef:
        """See ``Cluster.checkpoint``."""
        return await self._call(
            "checkpoint",
            lambda: super(FakeCluster, self).checkpoint(
                replica, incarnation, request=request, hold_s=hold_s, timeout_s=timeout_s
            ),
        )

    async def release(self, replica: ReplicaId, incarnation: int, *, request: str) -> None:
        """See ``Cluster.release``."""
        await self._call("release", lambda: super(FakeCluster, self).release(replica, incarnation, request=request))

    async def keep(self, replica: ReplicaId, incarnation: int, checkpoint: str) -> None:
        """See ``Cluster.keep``."""
        await self._call("keep", lambda: super(FakeCluster, self).keep(replica, incarnation, checkpoint))

    async def stop(self, replica: ReplicaId, incarnation: int, *, grace_s: float) -> Stopped:
        """See ``Cluster.stop``."""
        return await self._call("stop", lambda: super(FakeCluster, self).stop(replica, incarnation, grace_s=grace_s))

    async def limit(
        self,
        replica: ReplicaId,
        incarnation: int,
        cpu_limit_m: int | None,
        *,
        memory_limit_mib: int | UnsetType | None = UNSET,
    ) -> None:
        """See ``Cluster.limit``."""
        await self._call(
            "limit",
            lambda: super(FakeCluster, self).limit(
                replica, incarnation, cpu_limit_m, memory_limit_mib=memory_limit_mib
            ),
        )

    async def lookup(self, replica: ReplicaId, *, verify: bool = True) -> ReplicaStatus | None:
        """See ``Cluster.lookup``."""
        return await self._call("lookup", lambda: super(FakeCluster, self).lookup(replica, verify=verify))

    async def wait_for_step(self, replica: ReplicaId, incarnation: int, *, at_least: int, timeout_s: float) -> int:
        """See ``Cluster.wait_for_step``."""
        return await self._call(
            "wait_for_step",
            lambda: super(FakeCluster, self).wait_for_step(
                replica, incarnation, at_least=at_least, timeout_s=timeout_s
            ),
        )

    async def forget(self, job: str) -> None:
        """See ``Cluster.forget``."""
        await self._call("forget", lambda: super(FakeCluster, self).forget(job))

    async def _call(self, name: str, effect: Callable[[], Awaitable[T]]) -> T:
        await self._run_hooks(name, When.BEFORE)
        done = await effect()
        await self._run_hooks(name, When.AFTER)
        return done

    async def _run_hooks(self, name: str, when: When) -> None:
        await self._life.go()
        if self._every is not None:
            await self._every(name, when)
        hooks = self._hooks.get((name, when))
        if hooks:
            await hooks.popleft()()
        await self._life.go()
