"""Rate limits on the input of one job (token bucket: a burst, then a rate), so that one job does not delay another.

It owns the bounds and the counting; it must never know what is counted.
"""

from __future__ import annotations

from steepest.clock import Clock

OUTPUT_BYTES_S = 2 << 20
"""Bytes per second of what a container prints that are copied: far more than useful output, and as for a local job."""

OUTPUT_BURST_BYTES = 16 << 20

BYTES_S = 4 << 20
"""Bytes per second read from one file: twice the rate at which a job can print, so its reader keeps up."""

BYTES_BURST = 256 << 20
"""Bytes read at full speed: covers the output that a job printed while no collector ran."""

RECORDS_S = 1_000
"""Records per second sent for one incarnation: more would not improve a mean over thirty seconds."""

RECORDS_BURST = 100_000


class Allowance:
    """A token bucket."""

    def __init__(self, per_s: float, burst: float, clock: Clock) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._left = burst
        self._since = clock.monotonic()

    def take(self, wanted: int) -> int:
        """Take up to ``wanted`` tokens; return how many were available."""
        granted = min(wanted, max(int(self._now()), 0))
        self._left -= granted
        return granted

    def spend(self, amount: int) -> float:
        """Take ``amount`` tokens, available or not; return the seconds until they are covered."""
        self._left = self._now() - amount
        return max(-self._left / self._per_s, 0.0)

    def _now(self) -> float:
        now = self._clock.monotonic()
        self._left = min(self._left + (now - self._since) * self._per_s, self._burst)
        self._since = now
        return self._left
