"""When each gang would end if the devices of a pool were shared fairly, as a fluid.

All gangs get the same number of devices, but none more than it asks for, on :data:`SHARED` of the devices: whole gangs
leave some idle, and each of them starts once. The end under a fluid on all devices cannot be promised: no order of whole
gangs keeps it for all. A gang that has really ended goes on here until its copy has got as much; sizes are those known now.
"""

from __future__ import annotations

import math

import msgspec

from steepest.policies.steepest.fair.fair_sharing import Load, run_fairly

SHARED = 0.9
"""Share of the devices."""

SAME_SIZE = 0.05
"""Sizes that differ by less than this share are the same: the ends are not computed again."""


class FairGang(msgspec.Struct):
    """A gang's copy. Work is in device-seconds, times are seconds of counted time.

    Attributes:
        devices: The most that it uses.
        size: The whole job, its first start included; None: unknown.
        used: What it has got.
        end_s: When it ended here; None: it has not.
        forecast_s: When it will if no other comes; None: nothing says when.
        over: Whether the real job has ended.
    """

    devices: float
    size: float | None
    used: float = 0.0
    end_s: float | None = None
    forecast_s: float | None = None
    over: bool = False

    @property
    def ends_s(self) -> float | None:
        """When it ended here, or will."""
        return self.forecast_s if self.end_s is None else self.end_s

    @property
    def load(self) -> Load:
        """It as fair sharing sees it."""
        return Load(None if self.size is None else max(self.size - self.used, 0.0), self.devices)


class FairDevices(msgspec.Struct):
    """The copies of one pool's gangs.

    Attributes:
        devices: Of the pool.
        now_s: Up to when they have run.
        stale: Whether the forecasts must be made again.
    """

    devices: float = 0.0
    now_s: float = 0.0
    gangs: dict[str, FairGang] = {}
    stale: bool = False

    def resize(self, devices: float, now_s: float) -> None:
        """The pool has so many devices from here on."""
        if devices != self.devices:
            self._go_on(now_s)
            self.devices, self.stale = devices, True

    def know(self, name: str, devices: float, size: float | None, now_s: float) -> None:
        """A gang is here, and is taken to be so large now. A copy that ended by too small a size goes on."""
        gang = self.gangs.get(name)
        if gang is not None and gang.devices == devices and _is_same(gang.size, size):
            return
        self._go_on(now_s)
        if gang is None:
            gang = self.gangs[name] = FairGang(devices, size)
        gang.devices, gang.size, self.stale = devices, size, True
        if gang.end_s is not None and (size is None or size > (1 + SAME_SIZE) * gang.used):
            gang.end_s = None

    def finish(self, name: str, size: float, now_s: float) -> None:
        """The real job has ended after so much work; 0: without having worked."""
        gang = self.gangs.get(name)
        if gang is None:
            return
        self._go_on(now_s)
        gang.size, gang.over, self.stale = size, True, True
        if gang.end_s is not None or gang.used >= size:
            del self.gangs[name]

    def look(self, now_s: float) -> None:
        """Bring the forecasts up to date. Work: O(n log n) where anything came, ended, or has another size; else O(1)."""
        if not self.stale:
            return
        self._go_on(now_s)
        self.stale = False
        waiting = self._waiting()
        ends = self._shared(waiting, math.inf) if self.devices > 0 else []
        for gang, seconds in zip(waiting.values(), ends, strict=False):
            gang.forecast_s = None if math.isinf(seconds) else self.now_s + seconds

    def _go_on(self, now_s: float) -> None:
        seconds, waiting = now_s - self.now_s, self._waiting()
        self.now_s = max(now_s, self.now_s)
        if seconds <= 0 or not waiting or self.devices <= 0:
            return
        ends = self._shared(waiting, seconds, use=True)
        for (name, gang), end_s in zip(waiting.items(), ends, strict=True):
            if not math.isinf(end_s):
                gang.end_s = now_s - seconds + end_s
                if gang.over:
                    del self.gangs[name]

    def _waiting(self) -> dict[str, FairGang]:
        return {name: gang for name, gang in self.gangs.items() if gang.end_s is None}

    def _shared(self, gangs: dict[str, FairGang], seconds: float, *, use: bool = False) -> list[float]:
        """In how many seconds each ends; ``use``: they get what they get until then."""
        run = run_fairly(SHARED * self.devices, [gang.load for gang in gangs.values()], seconds)
        for gang, used in zip(gangs.values(), run.used, strict=True):
            gang.used += used if use else 0.0
        return list(run.ends)


def _is_same(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is now
    return abs(before - now) <= SAME_SIZE * before
