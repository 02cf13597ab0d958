"""How fast a container's output is copied: a burst, then piece by piece with pauses, so that a flood delays no other job.

It owns when a piece ends and how long the pause behind it is. It must never know where the output comes from.
"""

from __future__ import annotations

from steepest.clock import Clock
from steepest.untrusted.allowance import OUTPUT_BURST_BYTES, OUTPUT_BYTES_S, Allowance

PIECE_BYTES_LEAST = 4 << 20
"""New output in a piece. A piece begins with output that is there already, and may be as long as the burst by that alone."""


class CopyPace:
    """The pace of one container's copy."""

    def __init__(self, clock: Clock) -> None:
        self._allowed = Allowance(OUTPUT_BYTES_S, OUTPUT_BURST_BYTES, clock)
        self._new_bytes = 0

    def begin(self) -> None:
        """Begin a piece."""
        self._new_bytes = 0

    def is_enough(self, size: int, *, is_new: bool) -> bool:
        """Whether the piece ends behind these ``size`` bytes; what is there already counts, but does not end it."""
        self._new_bytes += size if is_new else 0
        is_spent = self._allowed.spend(size) > 0.0
        return is_spent and self._new_bytes >= PIECE_BYTES_LEAST

    def pause_s(self) -> float:
        """Seconds from the end of a piece until the next one may have a whole burst."""
        return self._allowed.spend(0) + OUTPUT_BURST_BYTES / OUTPUT_BYTES_S
