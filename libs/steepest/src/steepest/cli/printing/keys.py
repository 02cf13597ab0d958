"""The keyboard under a live view: ``q`` leaves it, as an interrupt does.

It owns the terminal's mode for as long as the view lasts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import Iterator


@contextlib.contextmanager
def leaving_on_q() -> Iterator[None]:
    """Cancel the present task when ``q`` is typed; nothing where standard input is no terminal."""
    task = asyncio.current_task()
    if task is None or not sys.stdin.isatty():
        yield
        return
    terminal, loop = sys.stdin.fileno(), asyncio.get_running_loop()

    def typed() -> None:
        if b"q" in os.read(terminal, 64).lower():
            task.cancel()

    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    loop.add_reader(terminal, typed)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
