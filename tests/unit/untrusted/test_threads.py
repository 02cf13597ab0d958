"""Calls that never return block no caller."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from steepest.untrusted.threads import run_detached


async def test_what_a_call_gives_or_raises_is_given_and_raised() -> None:
    """It is a call like any other one, as long as it comes back."""
    assert await run_detached(lambda: 7, timeout_s=60.0) == 7
    with pytest.raises(ZeroDivisionError):
        await run_detached(lambda: 1 // 0, timeout_s=60.0)


async def test_a_call_that_does_not_come_back_is_left() -> None:
    """Its thread is left to itself, and ends whenever it does."""
    gate = threading.Event()

    with pytest.raises(TimeoutError):
        await run_detached(gate.wait, timeout_s=0.01)
    gate.set()


def test_a_process_ends_while_a_call_does_not() -> None:
    """The threads of a pool would be waited for at the end."""
    program = """
import asyncio, contextlib, threading
from steepest.untrusted.threads import run_detached
with contextlib.suppress(TimeoutError):
    asyncio.run(run_detached(threading.Event().wait, timeout_s=0.01))
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
