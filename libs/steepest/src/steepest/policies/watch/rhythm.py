"""The rhythm of a running job: how long it is silent between two steps, and whether it uses the CPU meanwhile.

A silence is judged by the job's own gaps. A quantile alone is not enough: it calls nine in ten jobs hung that evaluate or
refill their data. The longest gap and the use of CPU tell them apart (``docs/watching.md`` has the figures). Time in which
a limit holds the job back counts less: by the share that it may use of its most.

Times are counted milliseconds of the pool, so a silent bus is no silent job.
"""

from __future__ import annotations

import msgspec

from steepest.policies.watch.robust import Gaps

KNOWN = 20
"""Gaps after which a job's rhythm is known."""

SLOW_QUANTILE, SLOW_FACTOR, LONGEST_FACTOR = 0.99, 10.0, 3.0
TYPICAL_FACTOR, TYPICAL_MOST_MS, EVEN = 50.0, 600_000, 5.0
"""A job that was never slow, the longest gap below ``EVEN`` typical ones, has so many typical gaps, up to ten minutes."""

UNSEEN_MS = 3_600_000
"""For what was never seen through: imports, data, compilation, the first evaluation."""

STILL_MS = 30_000
"""A job that uses no CPU for so long stands still; it is hung after so long at least."""

BUSY_MS = 1_800_000
"""A job that is busy is hung after so long at least: a deadlock that spins looks like work."""

IDLE_MS, FINISHED_IDLE_MS = 300_000, 60_000
"""Without use for so long a job is idle; one that has done all its steps, after so long."""

USED_CPU_M, USED_SHARE, USED_LEAST_M = 50, 10, 2
"""A job uses CPU if it uses so many millicores, or a tenth of its most and a little."""


class JobRhythm(msgspec.Struct, kw_only=True, gc=False):
    """What is remembered of a job.

    Attributes:
        incarnation: Of the process that runs.
        at_ms: Until when it is accounted.
        silent_ms: Since its last step, less what a limit has taken.
        gaps: Between its steps, of all incarnations.
        begun: Whether this incarnation has made a step.
        to_first_ms: The longest time from a start to the first step; 0: none was seen.
        step: The furthest one.
        mark: Epoch and loss, which change where there are no steps.
        busy_ms: When it last used CPU.
        most_m: The most CPU that it used, in millicores.
        paced_ms: As ``silent_ms``, also less what the other jobs of a full node have taken.
        step_ms: The time of each of its newest steps; None: there is none since it was looked at.
    """

    incarnation: int
    at_ms: int
    silent_ms: float = 0.0
    gaps: Gaps = msgspec.field(default_factory=Gaps)
    begun: bool = False
    to_first_ms: int = 0
    step: int = -1
    mark: tuple[float | None, float | None] = (None, None)
    busy_ms: int
    most_m: int = 0
    paced_ms: float = 0.0
    step_ms: float | None = None

    def restart(self, incarnation: int, now_ms: int) -> None:
        """Another process runs from here on."""
        self.incarnation, self.at_ms, self.busy_ms = incarnation, now_ms, now_ms
        self.silent_ms, self.begun, self.step, self.mark = 0.0, False, -1, (None, None)
        self.paced_ms, self.step_ms = 0.0, None

    def pass_over(self, now_ms: int) -> None:
        """Time in which nothing is expected of it: it is saved, stopped or moved."""
        self.at_ms = self.busy_ms = now_ms

    def use(self, cpu_m: int, limit_m: int | None, now_ms: int, *, is_full: bool = False) -> None:
        """Account the time until now, in which it used so much; ``is_full``: other jobs may have taken the rest."""
        self.most_m = max(self.most_m, cpu_m)
        share = 1.0 if limit_m is None or limit_m >= self.most_m else limit_m / self.most_m
        self.silent_ms += (now_ms - self.at_ms) * share
        got = min(share, cpu_m / self.most_m) if is_full and self.most_m else share
        self.paced_ms += (now_ms - self.at_ms) * got
        self.at_ms = now_ms
        is_held_back = limit_m is not None and 2 * cpu_m >= limit_m
        if cpu_m >= USED_CPU_M or cpu_m > max(self.most_m // USED_SHARE, USED_LEAST_M) or is_held_back:
            self.busy_ms = now_ms

    def hear(self, step: int | None, mark: tuple[float | None, float | None]) -> bool:
        """Take in a report; return whether it shows that the training goes on."""
        if step is not None:
            if step <= self.step:
                return False
            if self.begun and self.step >= 0:
                self.step_ms = self.paced_ms / (step - self.step)
            self.step, self.paced_ms = step, 0.0
        elif self.step >= 0 or mark in {self.mark, (None, None)}:
            return False
        self.mark = mark
        if self.begun:
            self.gaps.add(int(self.silent_ms))
        else:
            self.to_first_ms = max(self.to_first_ms, int(self.silent_ms))
        self.begun, self.silent_ms = True, 0.0
        return True

    @property
    def allowed_ms(self) -> float:
        """The silence that its rhythm explains."""
        gaps = self.gaps
        if not self.begun:
            return LONGEST_FACTOR * self.to_first_ms if self.to_first_ms else UNSEEN_MS
        if gaps.count < KNOWN:
            return max(UNSEEN_MS, LONGEST_FACTOR * gaps.longest)
        allowed = max(SLOW_FACTOR * gaps.quantile(SLOW_QUANTILE), LONGEST_FACTOR * gaps.longest)
        if gaps.longest < EVEN * (typical := gaps.quantile(0.5)):
            allowed = max(allowed, min(TYPICAL_MOST_MS, TYPICAL_FACTOR * typical))
        return allowed

    @property
    def unused_ms(self) -> int:
        """For how long it has used no CPU."""
        return self.at_ms - self.busy_ms

    @property
    def is_hung(self) -> bool:
        """Whether it is silent for longer than its rhythm and its use explain. It has made a step before."""
        if not (self.begun or self.to_first_ms) or self.silent_ms <= STILL_MS:
            return False
        least = STILL_MS if self.unused_ms >= STILL_MS else BUSY_MS
        return self.silent_ms > max(least, self.allowed_ms)
