"""A cluster that obeys one process at a time: a call that changes something is made only while the pool is held.

It owns which calls those are. A process that was suspended may have lost the pool to another replica of its service without
having noticed; what it had begun is that one's to do now. Between the question and the call a process may still be
suspended: for this moment every call names an incarnation, and a step is begun again under another attempt.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any, cast

from steepest.cluster.port import Cluster
from steepest.logger import Logger
from steepest.runtime.service import HeldPool

logger = Logger()

ACTS = frozenset({"start", "checkpoint", "release", "keep", "stop", "limit", "forget"})
"""The calls that change what runs, or what is kept of it."""


def held_cluster(cluster: Cluster, held: HeldPool) -> Cluster:
    """The cluster, as long as the pool is held. Afterwards an act never returns: its caller is about to be cancelled."""
    return cast("Cluster", _HeldCluster(cluster, held))


class _HeldCluster:
    def __init__(self, cluster: Cluster, held: HeldPool) -> None:
        self._cluster = cluster
        self._held = held

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._cluster, name)
        return self._while_held(call) if name in ACTS else call

    def _while_held(self, act: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(act)
        async def guarded(*args: Any, **kwargs: Any) -> Any:
            if not await self._held.is_held():
                logger.warning(
                    "not done: another process works on the pool now", call=act.__name__, pool=self._held.pool
                )
                await asyncio.Event().wait()
            return await act(*args, **kwargs)

        return guarded
