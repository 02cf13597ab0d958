"""The stop of a process: by signals, or by the end of its standard input."""

from __future__ import annotations

import asyncio
import signal
import sys


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def stop_at_eof(stop: asyncio.Event) -> None:
    """Set ``stop`` when standard input ends: the process that started this one holds the other end, and never writes."""

    class Held(asyncio.Protocol):
        def connection_lost(self, _: Exception | None) -> None:
            stop.set()

        def eof_received(self) -> None:
            stop.set()

    await asyncio.get_running_loop().connect_read_pipe(Held, sys.stdin)
