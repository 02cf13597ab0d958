"""The ``flock`` system call: exclusive locks on open files, which the kernel releases when their last holder dies.

A lock belongs to the open file, not to the process: opening the file again excludes other tasks of the same process too.
It must never know what a lock protects.
"""

from __future__ import annotations

import fcntl


def try_lock(descriptor: int) -> bool:
    """Take the exclusive lock of an open file; False if another open file holds it."""
    return _try(descriptor, fcntl.LOCK_EX)


def lock(descriptor: int) -> None:
    """Take the exclusive lock of an open file; it blocks the thread until the lock is free."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def is_locked(descriptor: int) -> bool:
    """Whether another open file holds the exclusive lock.

    If none does, this takes the shared lock until the descriptor is closed: for that instant ``try_lock`` fails elsewhere.
    """
    return not _try(descriptor, fcntl.LOCK_SH)


def _try(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
