"""Whether a process lives, as far as its test can tell: nothing that it does takes effect while it is paused or dead.

A process in a test is some tasks. Killing them would let them clean up, which SIGKILL does not; so they are frozen instead,
at every door through which they act: the log, the snapshots and the cluster all ask here first.
"""

from __future__ import annotations

import asyncio


class Life:
    """One process's."""

    def __init__(self) -> None:
        self._awake = asyncio.Event()
        self._awake.set()

    @property
    def is_awake(self) -> bool:
        """Whether it may act."""
        return self._awake.is_set()

    async def go(self) -> None:
        """Go on if the process is awake; otherwise when it is woken, which may be never."""
        if not self._awake.is_set():
            await self._awake.wait()

    def pause(self) -> None:
        """SIGSTOP; or SIGKILL, if it is never woken."""
        self._awake.clear()

    def wake(self) -> None:
        """SIGCONT."""
        self._awake.set()
