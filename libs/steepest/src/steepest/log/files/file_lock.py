"""One process at a time: a lock on a file, which the kernel takes back from a process that dies.

It owns waiting for the lock. It must never know what the lock protects.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from steepest.errors import LogUnavailableError

PATIENCE_S = 10.0
"""Who holds a lock writes to memory pages, which takes microseconds to milliseconds; longer means that it hangs."""

FIRST_WAIT_S = 0.0005
LONGEST_WAIT_S = 0.02


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Hold the lock, after waiting without blocking the event loop; may be cancelled while it waits.

    It asks again and again: a thread that waits in the kernel could not be called back, and would take the lock for a
    task that is no more.

    Raises:
        LogUnavailableError: Somebody held it all the time, or the lock file cannot be opened.
    """
    with _opened(path) as lock:
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        wait_s = FIRST_WAIT_S
        while not _try(lock):
            if asyncio.get_running_loop().time() > deadline:
                raise LogUnavailableError(
                    f"{path}: another process has held this lock for {PATIENCE_S:.0f} s",
                    hint=f"Find out who holds it with: lsof {path}; a stopped process must go on or be killed.",
                )
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)
        yield


@contextmanager
def locked_at_once(path: Path) -> Iterator[None]:
    """Hold the lock, after waiting for it in the kernel; for what happens before an event loop has work."""
    with _opened(path) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    # Opened anew each time, because the kernel counts locks by opening: it then also keeps tasks of one process apart.
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LogUnavailableError(
            f"{path}: cannot be opened: {error.strerror}", hint="See that its folder is there and can be written to."
        ) from error
    try:
        yield lock
    finally:
        os.close(lock)


def _try(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
