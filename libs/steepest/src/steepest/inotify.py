"""Linux's inotify: the kernel reports changes of files and folders.

It owns the system call. It must never know what a file means, or how often to look without events: they get lost when the
kernel's queue overflows, and another kernel's writes (a network file system, a virtual machine) cause none. So every caller
polls as well.
"""

from __future__ import annotations

import contextlib
import enum
import sys
from pathlib import Path
from typing import ClassVar

if sys.platform == "linux":
    # Not inside FileEvents: the import starts ldconfig to find the C library, which would block a running event loop.
    from asyncinotify import Inotify, Mask, Watch

AVAILABLE = sys.platform == "linux"
"""Whether this system has inotify."""


class FileChange(enum.Flag):
    """A change of a file in a watched folder."""

    MODIFIED = enum.auto()
    CREATED = enum.auto()
    MOVED_IN = enum.auto()
    CLOSED = enum.auto()  # after it was open for writing


class FileEvents:
    """An open inotify instance, with its watches. Use it within one event loop.

    Attributes:
        instances: Those that are open in this process.

    Raises:
        OSError: The user's limit of instances is reached, or the system has none.
    """

    instances: ClassVar[int] = 0

    def __init__(self) -> None:
        self._masks = {
            FileChange.MODIFIED: Mask.MODIFY,
            FileChange.CREATED: Mask.CREATE,
            FileChange.MOVED_IN: Mask.MOVED_TO,
            FileChange.CLOSED: Mask.CLOSE_WRITE,
        }
        self._only_folder, self._ended = Mask.ONLYDIR, Mask.IGNORED
        self._inotify = Inotify(cache_size=100)
        self._watches: dict[int, Watch] = {}
        self._is_closed = False
        FileEvents.instances += 1

    def watch_folder(self, path: Path, changes: FileChange) -> int:
        """Report changes of the files directly in a folder; return the watch's number.

        Raises:
            OSError: It does not exist, is no folder, or the user's limit of watches is reached.
        """
        mask = self._only_folder
        for change in changes:
            mask |= self._masks[change]
        watch = self._inotify.add_watch(path, mask)
        self._watches[watch.wd] = watch
        return watch.wd

    def unwatch(self, number: int) -> None:
        """End a watch, if the kernel has not ended it already because the file or folder is gone."""
        if (watch := self._watches.pop(number, None)) is not None:
            with contextlib.suppress(OSError):
                self._inotify.rm_watch(watch)

    async def next(self) -> int | None:
        """Wait for an event; return its watch's number, or None if the kernel's queue overflowed and events are lost."""
        event = await self._inotify.get()
        if event.watch is None:
            return None
        if self._ended in event.mask:
            self._watches.pop(event.watch.wd, None)
        return event.watch.wd

    def close(self) -> None:
        """End all watches."""
        if not self._is_closed:
            self._is_closed = True
            FileEvents.instances -= 1
            self._inotify.close()
