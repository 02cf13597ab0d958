"""File locks that exclude other processes; the kernel releases the lock of a process that dies.

It owns waiting for the lock. It must never know what the lock protects.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from steepest import flock
from steepest.errors import LogUnavailableError

PATIENCE_S = 10.0
"""A holder writes to the page cache, which takes microseconds to milliseconds; if it takes longer, it hangs."""

FIRST_WAIT_S = 0.0005
LONGEST_WAIT_S = 0.02


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Hold the lock, after waiting without blocking the event loop; the wait may be cancelled.

    It polls: a thread that waits in the kernel could not be cancelled, and would take the lock for a task that no longer
    exists.

    Raises:
        LogUnavailableError: Another process held it all the time, or the lock file cannot be opened.
    """
    with _opened(path) as lock:
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        wait_s = FIRST_WAIT_S
        while not flock.try_lock(lock):
            if asyncio.get_running_loop().time() > deadline:
                raise LogUnavailableError(
                    f"{path}: another process has held this lock for {PATIENCE_S:.0f} s",
                    hint=f"Find the holder with: lsof {path}; resume or kill it if it is stopped.",
                )
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)
        yield


@contextmanager
def locked_blocking(path: Path) -> Iterator[None]:
    """Hold the lock, after waiting for it in the kernel; for code that runs before the event loop has work."""
    with _opened(path) as lock:
        flock.lock(lock)
        yield


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    # Opened again each time: the lock belongs to the open file, so this also excludes other tasks of this process.
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LogUnavailableError(
            f"{path}: cannot be opened: {error.strerror}", hint="Check that its folder exists and is writable."
        ) from error
    try:
        yield lock
    finally:
        os.close(lock)
