"""Waiting for what must come, with an end: instead of sleeping and hoping.

It owns the patience. It must never know what is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PATIENCE_S = 60.0
"""How long something that must come is waited for. It ends a hopeless test, and nothing is measured by it."""

FIRST_LOOK_S = 0.005
LONGEST_LOOK_S = 0.25
"""Looks become rarer while nothing comes."""


async def until(condition: Callable[[], object], what: str = "", *, within_s: float = PATIENCE_S) -> None:
    """Wait until a condition holds.

    Args:
        condition: Looked at again and again.
        what: What is waited for, in words, for whoever reads the failure; may be left out where the test says it.
        within_s: Patience, in seconds of the event loop.

    Raises:
        AssertionError: It did not come.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    look_s = FIRST_LOOK_S
    while not condition():
        assert loop.time() < deadline, f"in vain waited {within_s:g} s for {what or 'the condition'}"
        await asyncio.sleep(look_s)
        look_s = min(look_s * 1.5, LONGEST_LOOK_S)
