"""Whether a process does its work: a loop lives while it says so, and is ready once it has caught up.

A cluster adapter counts as well: one that hangs places nothing, stops nothing, and lets every node look dead.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from steepest.clock import Clock

STUCK_AFTER_S = 60.0
"""Longest time for which a loop may say nothing. An idle one speaks every second, and one that waits for its log at every
attempt, which are 5 seconds apart at most; so this much silence is a call that hangs."""


LAG_MOST = 50_000
"""Records that a ready loop is behind at most: it reads some ten thousand a second, so its decisions are seconds late."""


class LoopHealth(msgspec.Struct):
    """The last report of one loop."""

    spoke_at: float
    position: int = 0
    lag: int = 0
    ready: bool = False


class Health:
    """The loops of a process.

    Attributes:
        refusal: Why the log is not for this reader; empty where it is.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.loops: dict[str, LoopHealth] = {}
        self._others: dict[str, Callable[[], float]] = {}
        self.refusal = ""

    def expect(self, loop: str) -> None:
        """Expect reports of a loop from now on."""
        self.loops[loop] = LoopHealth(self._clock.monotonic())

    def listen(self, name: str, silence_s: Callable[[], float]) -> None:
        """Add another part than a loop; ``silence_s`` returns for how many seconds it has been idle."""
        self._others[name] = silence_s

    def stop_listening(self, name: str) -> None:
        """Remove the part."""
        self._others.pop(name, None)

    def forget(self, loop: str) -> None:
        """A loop is not this process's any more."""
        self.loops.pop(loop, None)

    def progress(self, loop: str, position: int, lag: int, *, ready: bool) -> None:
        """A loop is at ``position``, with ``lag`` records to read."""
        self.loops[loop] = LoopHealth(self._clock.monotonic(), position, lag, ready)

    def wait(self, loop: str) -> None:
        """A loop cannot read or append, and starts again. Restarting the process would not help."""
        health = self.loops[loop]
        health.spoke_at, health.ready = self._clock.monotonic(), False

    def refuse(self, why: str) -> None:
        """The process must not continue, for this reason."""
        self.refusal = why

    def is_alive(self) -> bool:
        """Whether no loop is stuck; if one is, the process should be restarted."""
        return not self.stuck()

    def stuck(self) -> list[str]:
        """The loops and parts that have been silent for too long."""
        return [name for _, name, silence_s in self.silences() if silence_s >= STUCK_AFTER_S]

    def silences(self) -> list[tuple[str, str, float]]:
        """Kind, name and seconds of silence of each loop and each idle effector.

        May be called from any thread.
        """
        now = self._clock.monotonic()
        loops = [("loop", name, now - loop.spoke_at) for name, loop in self.loops.copy().items()]
        return loops + [("effector", name, silence_s()) for name, silence_s in self._others.copy().items()]

    def is_ready(self) -> bool:
        """Whether every loop has caught up with the log at its start, and keeps up."""
        loops = self.loops.copy()
        keeps_up = all(loop.ready and loop.lag <= LAG_MOST for loop in loops.values())
        return not self.refusal and bool(loops) and keeps_up
