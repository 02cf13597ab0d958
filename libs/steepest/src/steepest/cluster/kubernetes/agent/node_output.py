"""Copies a container's output from the files of its node into its incarnation's folder.

It owns when is looked, and when the output has ended. What comes out is what the API server's log would give, and more: a
container's log that was rotated while no agent ran is read from the older files, as far as the kubelet has kept them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from steepest.aio import uncancelled
from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.kubernetes.agent.cri_lines import CriLines
from steepest.cluster.kubernetes.agent.log_files import LogFiles, ReadAgainError
from steepest.cluster.kubernetes.output import ContainerOutput, add_lines
from steepest.cluster.output_copy import OutputCopy
from steepest.logger import Logger

_log = Logger()
LOOK_S = 0.25
"""How often a log is looked at that has nothing new."""


class ContainerLog(msgspec.Struct, frozen=True):
    """Where a container's log is on its node.

    Attributes:
        below: The folder of the logs of all pods.
        folder: Of this container.
        name: Of the file that is written.
    """

    below: Path
    folder: Path
    name: str


class NodeOutput(ContainerOutput):
    """Copies one container's output from its node's files.

    Args:
        log: Where its log is.
        has_ended: Whether the container has ended, so that nothing is added to its log.
        folder: The incarnation.
        patience_s: How long to wait for another adapter that copies.
    """

    def __init__(
        self, log: ContainerLog, has_ended: Callable[[], bool], folder: IncarnationFolder, *, patience_s: float = 0.0
    ) -> None:
        self._log = log
        self._has_ended = has_ended
        super().__init__(folder, patience_s=patience_s)

    async def _copy_into(self, copy: OutputCopy) -> bool:
        while True:
            try:
                await self._read_into(copy)
            except ReadAgainError as error:
                _log.info("log read again", incarnation=str(self._folder), why=str(error))
                await asyncio.sleep(LOOK_S)
            else:
                return False

    async def _read_into(self, copy: OutputCopy) -> None:
        """Read the log from the copy's place to its end.

        Raises:
            ReadAgainError: Begin again.
        """
        lines, is_last = CriLines(), False
        files = await uncancelled(asyncio.to_thread(self._files, copy))
        self._opened.set()
        try:
            while True:
                # Asked before the look: what a container printed before its end is in its log before the end is known.
                ends = self._hurry.is_set() or self._has_ended()
                size, is_new = await uncancelled(asyncio.to_thread(_carry, files, lines, copy))
                if size:
                    is_last = False
                    if self._pace.is_enough(size, is_new=is_new) and not self._hurry.is_set():
                        await self._pause(self._pace.pause_s())
                        self._pace.begin()
                elif ends and is_last:
                    return
                else:
                    is_last = ends  # the first look may only have shown that another file is written now
                    if not ends:
                        await self._pause(LOOK_S)
        finally:
            files.close()
            if lines.malformed:
                _log.warning("lines left out that are not as the kubelet writes them", count=lines.malformed)

    def _files(self, copy: OutputCopy) -> LogFiles:
        log = self._log
        return LogFiles(log.folder, log.name, below=log.below, since=copy.begin())

    async def _pause(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._hurry.wait()


def _carry(files: LogFiles, lines: CriLines, copy: OutputCopy) -> tuple[int, bool]:
    data = files.read()
    return len(data), add_lines(copy, lines.of(data)) if data else False
