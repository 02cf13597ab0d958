"""Wait until a condition holds, with a time limit, where a test would otherwise sleep.

It owns the time limit. It must never know what is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PATIENCE_S = 60.0
"""The default time limit. It ends a test that would never pass, and measures nothing."""

FIRST_LOOK_S = 0.005
LONGEST_LOOK_S = 0.25
"""The time between calls grows from the first to the second."""


async def until(condition: Callable[[], object], what: str = "", *, within_s: float = PATIENCE_S) -> None:
    """Wait until a condition holds.

    Args:
        condition: Called repeatedly.
        what: What is waited for, for the failure's message; may be omitted if the test's name says it.
        within_s: Patience, in seconds of the event loop.

    Raises:
        AssertionError: It did not hold in time.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    look_s = FIRST_LOOK_S
    while not condition():
        assert loop.time() < deadline, f"waited {within_s:g} s without success for {what or 'the condition'}"
        await asyncio.sleep(look_s)
        look_s = min(look_s * 1.5, LONGEST_LOOK_S)
