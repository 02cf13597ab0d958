"""A clock for tests of what depends on spans of time and never waits."""

from __future__ import annotations


class SetClock:
    """A clock that stands still until it is set.

    Attributes:
        now_s: What ``monotonic`` gives, in seconds.
    """

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def now_ms(self) -> int:
        """Not asked for."""
        raise NotImplementedError

    def monotonic(self) -> float:
        """What it was set to."""
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        """Not asked for."""
        raise NotImplementedError
