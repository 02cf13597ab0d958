"""Tells when something may have changed in some folders, so that whoever waits looks again.

It owns inotify where there is one, and a period where there is none. It must never know what the files mean: a change is
a hint, and everybody looks for themselves. Events may be lost or say nothing new, so nobody relies on them.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

import structlog

if sys.platform == "linux":
    from asyncinotify import Inotify, Mask
    from asyncinotify import Watch as _Watch

_log = structlog.get_logger(__name__)
_POLL_S = 0.05
_POLL_BESIDE_EVENTS_S = 1.0  # events get lost when a queue overflows, and network file systems send none


class Pulse:
    """Wakes all that wait, again and again."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def next_pulse(self) -> asyncio.Event:
        """The next pulse. Take it first, then look, then wait for it: a pulse between the two is not missed."""
        return self._next

    def fire(self) -> None:
        """Wake all who wait now."""
        fired, self._next = self._next, asyncio.Event()
        fired.set()


async def wait(pulse: asyncio.Event, timeout_s: float) -> None:
    """Wait for a pulse, or until it is time to look all the same."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(timeout_s, 0.0)):
            await pulse.wait()


class Watch:
    """Pulses when files appear in the watched folders. To be made in a running loop.

    Args:
        events: False never uses inotify.
    """

    def __init__(self, *, events: bool = True) -> None:
        self.pulse = Pulse()
        self.poll_s = _POLL_S
        self._task: asyncio.Task[None] | None = None
        if events and sys.platform == "linux":
            self._open()

    def _open(self) -> None:
        try:
            self._inotify = Inotify(cache_size=100)
        except OSError as error:
            _log.warning("no inotify: polling", why=str(error), period_s=_POLL_S)
            return
        self._watches: dict[Path, _Watch] = {}
        self.poll_s = _POLL_BESIDE_EVENTS_S
        self._task = asyncio.create_task(self._listen())

    def add(self, folder: Path, *, closed: bool = False) -> None:
        """Watch a folder too. If the system has no watch left, everything is polled from now on.

        One that is not there, because its job has removed it, has nothing to tell.

        Args:
            folder: Where files are renamed to when they are complete.
            closed: Pulse also when a file in it is closed after writing, as a lock file is when its holder dies.
        """
        if self._task is None or folder in self._watches:
            return
        mask = Mask.ONLYDIR | Mask.MOVED_TO | (Mask.CLOSE_WRITE if closed else Mask(0))
        try:
            self._watches[folder] = self._inotify.add_watch(folder, mask)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            _log.warning("folder not watched: polling", folder=str(folder), why=str(error), period_s=_POLL_S)
            self.poll_s = _POLL_S

    def remove(self, folder: Path) -> None:
        """Watch a folder no more."""
        if self._task is not None and (watch := self._watches.pop(folder, None)) is not None:
            with contextlib.suppress(OSError):  # the folder is gone, and its watch with it
                self._inotify.rm_watch(watch)

    async def close(self) -> None:
        """Let go of everything."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._inotify.close()
            self._task = None

    async def _listen(self) -> None:
        while True:
            await self._inotify.get()
            self.pulse.fire()
