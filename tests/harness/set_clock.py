"""A clock for tests of code that measures time but never waits."""

from __future__ import annotations


class SetClock:
    """A clock that stands still until it is set.

    Attributes:
        now_s: What ``monotonic`` returns, in seconds.
    """

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def now_ms(self) -> int:
        """Not used."""
        raise NotImplementedError

    def monotonic(self) -> float:
        """The time that the test has set."""
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        """Not used."""
        raise NotImplementedError
