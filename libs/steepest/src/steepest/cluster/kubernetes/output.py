"""Copies a container's output into its incarnation's folder, through the API server.

It owns the asking, and how adapters that might all copy leave it to one. The API server shows the newest part of a
container's log, which its node bounds (10 MiB by default). A container that prints faster than is copied is read piece by
piece, each from where the one before ended; where that is not shown any more, ``OutputCopy`` says that lines may be missing.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

import aiohttp

from steepest.aio import uncancelled
from steepest.clock import SystemClock
from steepest.cluster.copy_pace import CopyPace
from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.output_copy import OutputCopy
from steepest.errors import ClusterError
from steepest.logger import Logger

_log = Logger()
_SILENT_S = 3600.0
_HANDOVER_S = 5.0
_OPENED_S = 1.0
_LONGEST_TIME = 35  # with nanoseconds and the distance from UTC

LEFT_S = 5.0
"""How long an adapter whose heartbeats have no consumer leaves an output to the one whose heartbeats have."""

ANOTHER_S = 60.0
"""How long another adapter is left to copy before this one asks again whether it does."""


class ContainerOutput(abc.ABC):
    """Copies one container's output until it ends.

    Args:
        folder: The incarnation.
        patience_s: How long to wait for another adapter that copies.
        delay_s: How long to leave it to another adapter before.
    """

    def __init__(self, folder: IncarnationFolder, *, patience_s: float = 0.0, delay_s: float = 0.0) -> None:
        self._folder = folder
        self._patience_s = patience_s
        self._pace = CopyPace(SystemClock())
        self._hurry = asyncio.Event()
        self._delay_s = delay_s
        self._due = asyncio.Event()
        self._opened = asyncio.Event()
        self.is_complete = False
        self._is_elsewhere = False
        self._begun_s = time.monotonic()
        self.task = asyncio.create_task(self._follow())

    def hurry(self) -> None:
        """Copy the rest without pauses: the container has ended."""
        self._hurry.set()

    @property
    def has_begun(self) -> bool:
        """Whether it is no longer left to another adapter."""
        return self._due.is_set()

    async def begin(self) -> None:
        """Begin now, and wait until the log is open or another adapter has it; for no longer than a second."""
        self._due.set()
        opened = asyncio.create_task(self._opened.wait())
        await asyncio.wait([opened, self.task], timeout=_OPENED_S, return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()

    @property
    def may_be_begun_again(self) -> bool:
        """Whether it has ended, and so may be begun again if the container still runs."""
        return self.task.done() and (not self._is_elsewhere or time.monotonic() > self._begun_s + ANOTHER_S)

    async def _follow(self) -> None:
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._delay_s):
                    await self._due.wait()
            self._due.set()
            while has_more := await self._copy():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pace.pause_s()):
                        await self._hurry.wait()
            self.is_complete = has_more is False
            self._is_elsewhere = has_more is None
        except (ClusterError, OSError, aiohttp.ClientError) as error:
            _log.info("output copy interrupted", incarnation=str(self._folder), why=str(error))

    async def _copy(self) -> bool | None:
        """Copy until the output ends, or as much as is allowed; whether there may be more. None: another adapter copies."""
        copy = await self._open()
        if copy is None:
            return None
        try:
            self._pace.begin()
            return await self._copy_into(copy)
        finally:
            copy.close()

    @abc.abstractmethod
    async def _copy_into(self, copy: OutputCopy) -> bool:
        """The same, with the files open. It sets ``_opened`` once what is copied is open as well."""

    async def _open(self) -> OutputCopy | None:
        opening = asyncio.ensure_future(asyncio.to_thread(OutputCopy.locked, self._folder, self._patience_s))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unused)
            raise


class PodOutput(ContainerOutput):
    """Copies what the API server shows of one container's log.

    Args:
        api: The API server.
        path: Of the pod.
        container: The one that trains.
        folder: The incarnation.
        patience_s: How long to wait for another adapter that copies.
        delay_s: How long to leave it to another adapter before.
        is_gone: Whether the pod was removed: the next one of a user's object may have its name.
    """

    def __init__(
        self,
        api: KubernetesApi,
        path: str,
        container: str,
        folder: IncarnationFolder,
        *,
        patience_s: float = 0.0,
        delay_s: float = 0.0,
        is_gone: Callable[[], bool] = lambda: False,
    ) -> None:
        self._is_gone = is_gone
        self._api = api
        self._path = path
        self._container = container
        super().__init__(folder, patience_s=patience_s, delay_s=delay_s)

    async def _copy_into(self, copy: OutputCopy) -> bool:
        query = {"container": self._container, "follow": "true", "timestamps": "true"}
        if (since := copy.begin()) is not None:
            query["sinceTime"] = f"{datetime.fromtimestamp(int(since), UTC):%Y-%m-%dT%H:%M:%SZ}"
        lines = TimedLines()
        if self._is_gone():
            raise ClusterError(f"the pod of {self._folder} is gone", code="not-running")
        async with self._api.stream(f"{self._path}/log", query, silent_s=_SILENT_S) as body:
            self._opened.set()
            async for chunk in body.iter_any():
                # The files are closed after a cancellation.
                is_new = await uncancelled(asyncio.to_thread(add_lines, copy, lines.of(chunk)))
                if self._pace.is_enough(len(chunk), is_new=is_new) and not self._hurry.is_set():
                    return True
        return False


class TimedLines:
    """Splits a log that has a time before each line, however it is cut into chunks."""

    def __init__(self) -> None:
        self._at = ""  # of a line whose end has not come yet
        self._head = b""  # of a line whose time has not come whole

    def of(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        """The lines of a chunk and the piece of one at its end, each with its line's time."""
        *whole, rest = (self._head + chunk).split(b"\n")
        self._head = b""
        for line in whole:
            yield self._timed(line + b"\n")
            self._at = ""
        if self._at or b" " in rest or len(rest) > _LONGEST_TIME:
            if rest:
                yield self._timed(rest)
        else:
            self._head = rest

    def _timed(self, piece: bytes) -> tuple[str, bytes]:
        if not self._at:
            at, _, piece = piece.partition(b" ")
            self._at = at.decode(errors="replace")
        return self._at, piece


async def complete(running: ContainerOutput | None, again: Callable[[float], ContainerOutput | None]) -> None:
    """Wait for some seconds until an ended container's output is copied whole.

    Args:
        running: What copies it now.
        again: Begins to copy, with patience for another adapter that does; None: it is not to be copied here.
    """
    if running is not None and not running.has_begun:
        running.task.cancel()
        running = None
    for begun in (running, None):
        output = begun or again(_HANDOVER_S)
        if output is None:
            return
        output.hurry()
        try:
            await asyncio.wait([output.task], timeout=_HANDOVER_S)
        finally:
            output.task.cancel()
        if output.is_complete:
            return


def add_lines(copy: OutputCopy, lines: Iterable[tuple[str, bytes]]) -> bool:
    """Add pieces of lines, each with its line's time; returns whether any was new. It blocks.

    Raises:
        OSError: Something was not appended whole: begin again.
    """
    added = [copy.add(at, text) for at, text in lines]
    return any(added)


def _close_unused(opening: asyncio.Future[OutputCopy | None]) -> None:
    if not opening.cancelled() and opening.exception() is None and (copy := opening.result()) is not None:
        copy.close()
