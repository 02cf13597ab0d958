"""Copies a container's output into its incarnation's ``output.log``.

It owns the copying. A copy that was interrupted (the API server or the adapter died) goes on at the end of the file, as long
as the node has not rotated the container's log meanwhile (10 MiB by default): then what was rotated away is missing. If
several adapters share a state folder, one copies: it holds the file's lock.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable

import aiohttp

from steepest.aio import uncancelled
from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.errors import ClusterError
from steepest.logger import Logger

_log = Logger()
_SILENT_S = 3600.0
_HANDOVER_S = 5.0


class PodOutput:
    """Follows one container's output until it ends.

    Args:
        api: The API server.
        path: Of the pod.
        container: The one that trains.
        folder: The incarnation.
        patience_s: How long to wait for another adapter that copies.
    """

    def __init__(
        self, api: KubernetesApi, path: str, container: str, folder: IncarnationFolder, *, patience_s: float = 0.0
    ) -> None:
        self._api = api
        self._path = path
        self._container = container
        self._folder = folder
        self._patience_s = patience_s
        self.is_complete = False
        self.task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        try:
            file = await asyncio.to_thread(incarnation_locks.take, self._folder.output, self._patience_s)
            if file is None:
                return
            try:
                fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
                await self._copy(file)
                self.is_complete = True
            finally:
                os.close(file)
        except (ClusterError, OSError, aiohttp.ClientError) as error:
            _log.info("output copy interrupted", incarnation=str(self._folder), why=str(error))

    async def _copy(self, file: int) -> None:
        skip = os.fstat(file).st_size
        query = {"container": self._container, "follow": "true"}
        async with self._api.stream(f"{self._path}/log", query, silent_s=_SILENT_S) as body:
            async for chunk in body.iter_any():
                rest = chunk[min(skip, len(chunk)) :]
                skip -= len(chunk) - len(rest)
                if rest:
                    await uncancelled(asyncio.to_thread(_write, file, rest))  # the file is closed after a cancellation


async def complete(running: PodOutput | None, again: Callable[[float], PodOutput]) -> None:
    """Wait for some seconds until an ended container's output is copied whole.

    Args:
        running: What copies it now.
        again: Begins to copy, with patience for another adapter that does.
    """
    for begun in (running, None):
        output = begun or again(_HANDOVER_S)
        await asyncio.wait([output.task], timeout=_HANDOVER_S)
        output.task.cancel()
        if output.is_complete:
            return


def _write(file: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(file, rest) :]
