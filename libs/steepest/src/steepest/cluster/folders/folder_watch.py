"""Signals that something may have changed in some folders, so that waiting tasks look again.

It uses inotify on Linux, and polling elsewhere. It must never know what the files mean: a signal is only a hint, and each
task reads the files itself. Events may be lost or announce nothing new, so no task relies on them.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from steepest import inotify
from steepest.inotify import FileChange, FileEvents
from steepest.logger import Logger

_log = Logger()
_POLL_S = 0.05
_POLL_BESIDE_EVENTS_S = 1.0  # events get lost when a queue overflows, and network file systems send none


class Pulse:
    """An event that can be set repeatedly: each pulse wakes all tasks that wait for it."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def next_pulse(self) -> asyncio.Event:
        """The next pulse. Get it first, then read the files, then wait for it: so no pulse in between is missed."""
        return self._next

    def fire(self) -> None:
        """Wake all tasks that wait now."""
        fired, self._next = self._next, asyncio.Event()
        fired.set()


async def wait(pulse: asyncio.Event, timeout_s: float) -> None:
    """Wait for a pulse, or until the timeout: then the caller looks anyway, because events may be lost."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(timeout_s, 0.0)):
            await pulse.wait()


class Watch:
    """Pulses when files appear in the watched folders. Create it in a running event loop.

    Args:
        events: False: never use inotify.
    """

    def __init__(self, *, events: bool = True) -> None:
        self.pulse = Pulse()
        self.poll_s = _POLL_S
        self._task: asyncio.Task[None] | None = None
        if events and inotify.AVAILABLE:
            self._open()

    def _open(self) -> None:
        try:
            self._events = FileEvents()
        except OSError as error:
            _log.warning("no inotify: polling", why=str(error), period_s=_POLL_S)
            return
        self._watches: dict[Path, int] = {}
        self.poll_s = _POLL_BESIDE_EVENTS_S
        self._task = asyncio.create_task(self._listen())

    def add(self, folder: Path, *, closed: bool = False) -> None:
        """Watch another folder. If the system has no watch left, all folders are polled from now on.

        A folder that does not exist, because its job has removed it, is ignored.

        Args:
            folder: The folder into which complete files are renamed.
            closed: Pulse also when a file in it is closed after writing, as a lock file is when its holder dies.
        """
        if self._task is None or folder in self._watches:
            return
        changes = FileChange.MOVED_IN | FileChange.CLOSED if closed else FileChange.MOVED_IN
        try:
            self._watches[folder] = self._events.watch_folder(folder, changes)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            _log.warning("folder not watched: polling", folder=str(folder), why=str(error), period_s=_POLL_S)
            self.poll_s = _POLL_S

    def remove(self, folder: Path) -> None:
        """Stop watching a folder."""
        if self._task is not None and (watch := self._watches.pop(folder, None)) is not None:
            self._events.unwatch(watch)

    async def close(self) -> None:
        """Stop watching and close inotify."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._events.close()
            self._task = None

    async def _listen(self) -> None:
        while True:
            await self._events.next()
            self.pulse.fire()
