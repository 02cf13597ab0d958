"""Notices that a file was written to, by any process: through inotify if there is one, otherwise by polling.

It owns which partitions a notice is about. It must never know what is in a file.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from steepest.log.base import TopicPartition
from steepest.log.local_reader import Bell
from steepest.logger import Logger

if TYPE_CHECKING:
    from steepest.inotify import FileEvents

POLL_S = 0.05
"""Polling period without inotify: short enough for people, cheap enough for the machine."""

POLL_WITH_EVENTS_S = 1.0
"""Polling period with inotify: writes by another kernel (of a virtual machine, for example) cause no event."""

_log = Logger()


class FileWatch:
    """Rings the bell of a partition when a file of its topic grows, or another takes its place.

    Attributes:
        recheck_s: How often waiters must poll.
    """

    def __init__(self, bell: Bell) -> None:
        self.recheck_s = POLL_S
        self._bell = bell
        self._partitions: dict[int, list[TopicPartition]] = {}
        self._listener: asyncio.Task[None] | None = None
        self._events: FileEvents

    def add(self, at: TopicPartition, path: Path) -> None:
        """Watch another file. Within the event loop only."""
        from steepest import inotify  # noqa: PLC0415 - a command that reads to the end and waits for nothing starts sooner

        if not inotify.AVAILABLE or any(at in watched for watched in self._partitions.values()):
            return
        try:
            if self._listener is None:
                self._events = inotify.FileEvents()
                self._listener = asyncio.create_task(self._listen(), name="steepest-log-watch")
                self.recheck_s = POLL_WITH_EVENTS_S
            changes = inotify.FileChange.MODIFIED | inotify.FileChange.MOVED_IN
            self._partitions.setdefault(self._events.watch_folder(path.parent, changes), []).append(at)
        except OSError as error:
            self.recheck_s = POLL_S
            _log.warning("file not watched: polling", file=str(path), reason=error.strerror)

    async def close(self) -> None:
        """Stop watching."""
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait({self._listener})
            self._events.close()
            self._listener = None

    async def _listen(self) -> None:
        while True:
            watch = await self._events.next()
            if watch is None:
                self._bell.ring_all()  # the kernel's queue overflowed: any file may have lost events
            for at in self._partitions.get(watch or 0, ()):
                self._bell.ring(at)
