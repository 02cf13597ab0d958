"""File locks: which process may change a job's folders now, and whether the holder of a lock still lives.

It must never know what is locked or why. The kernel drops a lock when its last holder dies, so a lock cannot be left
behind.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from steepest import flock
from steepest.errors import ClusterError, UntrustedError
from steepest.untrusted.files import open_file

_RETRY_S = 0.01
_PATIENCE_S = 10.0  # a start takes tens of milliseconds; a holder that takes longer was stopped or swapped out


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock; False if the path is missing or not a regular file."""
    try:
        descriptor = open_file(path, below=path.parent)
    except (FileNotFoundError, UntrustedError):
        return False
    try:
        return flock.is_locked(descriptor)
    finally:
        os.close(descriptor)


def take(path: Path | str, patience_s: float, *, inside: int | None = None) -> int | None:
    """Lock the file and return the descriptor that holds the lock; None if another process holds it all the time.

    It tries more than once because ``is_held`` also takes the lock, for an instant. ``inside``: the open folder of a name.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600, dir_fd=inside)
    deadline = time.monotonic() + patience_s
    while not flock.try_lock(descriptor):
        if time.monotonic() >= deadline:
            os.close(descriptor)
            return None
        time.sleep(_RETRY_S)
    return descriptor


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock during the block. It blocks the thread.

    Raises:
        ClusterError: Another process held it for 10 s; nothing was done.
    """
    descriptor = _take_current(path)
    try:
        yield
    finally:
        os.close(descriptor)


def _take_current(path: Path) -> int:
    """The lock of the file that the path names now: a holder may have removed the one that was opened."""
    while True:
        descriptor = take(path, _PATIENCE_S)
        if descriptor is None:
            raise ClusterError(
                f"another process has held {path} for {_PATIENCE_S:g} s",
                code="locked",
                hint="find the process that holds it (it may be stopped) and end it",
            )
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        os.close(descriptor)
