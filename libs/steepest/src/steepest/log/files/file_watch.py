"""Hearing that a file was written to by anybody: by the kernel's word where it gives it, else by looking often.

It owns inotify. It must never know what is in a file.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import structlog

from steepest.log.base import TopicPartition
from steepest.log.local_reader import Bell

if sys.platform == "linux":
    from asyncinotify import Inotify, Mask

LOOK_S = 0.05
"""How often a reader looks where the kernel tells nothing: soon for people, cheap for the machine."""

LOOK_ALL_THE_SAME_S = 1.0
"""How often it looks where the kernel does tell: it tells nothing of writes by another kernel (a virtual machine's)."""

_log = structlog.get_logger(__name__)


class FileWatch:
    """Rings the bell of a partition when its file grew.

    Attributes:
        recheck_s: How often those who wait must look themselves.
    """

    def __init__(self, bell: Bell) -> None:
        self.recheck_s = LOOK_S
        self._bell = bell
        self._partitions: dict[int, TopicPartition] = {}
        self._listening: asyncio.Task[None] | None = None

    def add(self, at: TopicPartition, path: Path) -> None:
        """Listen for this file as well. Within the event loop only."""
        if sys.platform != "linux" or at in self._partitions.values():
            return
        try:
            if self._listening is None:
                self._inotify = Inotify()
                self._listening = asyncio.create_task(self._listen(), name="steepest-log-watch")
                self.recheck_s = LOOK_ALL_THE_SAME_S
            self._partitions[self._inotify.add_watch(path, Mask.MODIFY).wd] = at
        except OSError as error:
            self.recheck_s = LOOK_S
            _log.warning("files are looked at instead of watched", file=str(path), reason=error.strerror)

    async def close(self) -> None:
        """Hear nothing more."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
            self._inotify.close()
            self._listening = None

    async def _listen(self) -> None:
        async for event in self._inotify:
            at = self._partitions.get(event.watch.wd) if event.watch is not None else None
            if at is None:
                self._bell.ring_all()  # the kernel's queue was full: it does not say what it left out
            else:
                self._bell.ring(at)
