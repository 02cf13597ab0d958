"""Stops an incarnation: its Job is suspended, its pod ends within its grace, and what it ended with is seen.

It owns the order of these steps, and what is done about a pod that does not end. It must never take a pod for ended before
a kubelet says that it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.folders.folder_watch import wait
from steepest.cluster.kubernetes.jobs import BatchJobs
from steepest.cluster.kubernetes.kubernetes_background import KubernetesBackground
from steepest.cluster.kubernetes.manifest import GRACE_S
from steepest.cluster.kubernetes.pod_observer import pod_of, stop_of
from steepest.cluster.kubernetes.users_jobs import is_users
from steepest.cluster.observation import Observation, declare_gone
from steepest.errors import UncertainError

_KILL_S = 30.0  # a kubelet kills within seconds of the grace's end
_RETRY_S = 1.0
_SHORTEST_GRACE_S = 1  # 0 would remove the pod without a proof that its processes are gone


class PodStop:
    """The stop of one incarnation.

    Args:
        jobs: The adapter's Jobs.
        background: What is known of their pods.
        folder: The incarnation.
        locked: Holds the lock of its job, also against other adapters on the folder.
    """

    def __init__(
        self,
        jobs: BatchJobs,
        background: KubernetesBackground,
        folder: IncarnationFolder,
        locked: Callable[[str], AbstractAsyncContextManager[None]],
    ) -> None:
        self._jobs = jobs
        self._background = background
        self._folder = folder
        self._locked = locked

    async def end(self, grace_s: float) -> Observation:
        """Stop it, and wait until it has ended; after the grace, in seconds, it is killed.

        Raises:
            UncertainError: It still runs, or the API server does not answer.
        """
        patience = time.monotonic() + grace_s
        is_suspended = is_killed = False
        pod = await asyncio.to_thread(pod_of, self._folder)
        while True:
            pulse = self._background.pods.next_change(pod.uid) if pod else self._background.watch.pulse.next_pulse()
            late = time.monotonic() - patience
            try:
                seen = await self._observe()
                if seen.ended:
                    return seen
                if not seen.began:
                    await self._cancel_start()
                    continue
                if not is_suspended:
                    await self._background.begin_output(self._folder)
                    is_suspended = await self._suspend(grace_s)
                elif late >= 0 and not is_killed:
                    is_killed = await self._kill()
            except UncertainError:
                if late >= _KILL_S:
                    raise
            if late >= _KILL_S:
                raise UncertainError(f"{self._folder} still runs {_KILL_S:g} s after its grace", code="stop-timeout")
            await wait(pulse, _RETRY_S if late >= 0 else min(_RETRY_S, -late))

    async def _suspend(self, grace_s: float) -> bool:
        replica = self._folder.replica
        async with self._locked(replica.job):
            if (await self._observe()).ended:
                return True
            pod = await asyncio.to_thread(pod_of, self._folder)
            with contextlib.suppress(OSError):  # the disk is full: its pod counts as deleted by another party
                await asyncio.to_thread(self._folder.write, stop_of(self._folder), {})
            users = await asyncio.to_thread(is_users, replica.job, self._folder)
            fails = pod is not None and grace_s < GRACE_S and not users
            if fails:
                # Before the Job is suspended: a kubelet does not reliably shorten a grace that has begun. This fails the
                # Job, and in place of one that a user has made there is no other.
                await self._kill(grace_s)
            if not await self._jobs.suspend(replica, fails=fails):
                await self._kill(grace_s)  # another party has removed the Job, and its pod ends or was orphaned
        return True

    async def _kill(self, grace_s: float = _SHORTEST_GRACE_S) -> bool:
        pod = await asyncio.to_thread(pod_of, self._folder)
        if pod is not None:
            await self._jobs.end(pod, grace_s=max(math.ceil(grace_s), _SHORTEST_GRACE_S))
        return True

    async def _cancel_start(self) -> None:
        """Record the end of an interrupted start, so that a later ``start`` never completes it."""
        replica = self._folder.replica
        async with self._locked(replica.job):
            if not (await self._observe()).began:
                await self._jobs.suspend(replica)
                pod = await asyncio.to_thread(pod_of, self._folder)
                if pod is not None:
                    await self._jobs.gone(pod)
                await asyncio.to_thread(declare_gone, self._folder, "it was stopped before it began")

    async def _observe(self) -> Observation:
        return await self._background.observer.observe(self._folder)
