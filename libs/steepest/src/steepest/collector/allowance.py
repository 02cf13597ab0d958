"""How much of one job is taken in: a burst, and beyond it so much a second, so that one job delays no other one.

It owns the bounds and the counting; it must never know what is counted.
"""

from __future__ import annotations

from steepest.clock import Clock

BYTES_S = 4 << 20
"""Read of one file. It is twice what a local job can print, so its reader keeps up."""

BYTES_BURST = 256 << 20
"""Read at full speed: what a job has printed while nobody was here."""

RECORDS_S = 1_000
"""Sent of one incarnation. A mean over thirty seconds is no better for more."""

RECORDS_BURST = 100_000


class Allowance:
    """An amount that fills up again with time."""

    def __init__(self, per_s: float, burst: float, clock: Clock) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._left = burst
        self._since = clock.monotonic()

    def take(self, wanted: int) -> int:
        """How much of ``wanted`` is granted now; that is taken."""
        granted = min(wanted, max(int(self._now()), 0))
        self._left -= granted
        return granted

    def spend(self, amount: int) -> float:
        """Take ``amount``, granted or not; give in how many seconds it will have been."""
        self._left = self._now() - amount
        return max(-self._left / self._per_s, 0.0)

    def _now(self) -> float:
        now = self._clock.monotonic()
        self._left = min(self._left + (now - self._since) * self._per_s, self._burst)
        self._since = now
        return self._left
