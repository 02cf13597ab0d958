"""Whether a process does its work: a loop lives while its position advances or nothing is left to read."""

from __future__ import annotations

import msgspec

from steepest.clock import Clock

STUCK_AFTER_S = 60.0
"""Longest time without progress while records wait: five times the longest append that is retried."""


class LoopHealth(msgspec.Struct):
    """One loop, as it last said of itself."""

    position: int = 0
    lag: int = 0
    progress_at: float = 0.0
    ready: bool = False


class Health:
    """The loops of a process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.loops: dict[str, LoopHealth] = {}
        self.refusal = ""

    def progress(self, loop: str, position: int, lag: int, *, ready: bool) -> None:
        """A loop is at ``position``, with ``lag`` records to read."""
        health = self.loops.setdefault(loop, LoopHealth(progress_at=self._clock.monotonic()))
        if position != health.position or lag == 0:
            health.progress_at = self._clock.monotonic()
        health.position, health.lag, health.ready = position, lag, ready

    def refuse(self, why: str) -> None:
        """The process must not go on, and says why."""
        self.refusal = why

    def is_alive(self) -> bool:
        """Whether every loop progresses; where not, the process should be started anew."""
        now = self._clock.monotonic()
        return all(loop.lag == 0 or now - loop.progress_at < STUCK_AFTER_S for loop in self.loops.values())

    def is_ready(self) -> bool:
        """Whether every loop has caught up with what was there at its start."""
        return not self.refusal and bool(self.loops) and all(loop.ready for loop in self.loops.values())
