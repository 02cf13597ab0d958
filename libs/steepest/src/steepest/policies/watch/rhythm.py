"""The rhythm of a running job: how long it is silent between two steps, and whether it uses the CPU meanwhile.

A silence is judged by the job's own gaps. A quantile alone is not enough: it calls nine in ten jobs hung that evaluate or
refill their data. The longest gap and the use of CPU tell them apart (``docs/watching.md`` has the figures). Time in which
a limit holds the job back counts less: by the share that it may use of its most.

A phase that the job's output names (an evaluation, a save) has silences of its own: those of the steps say nothing of them.
What earlier jobs of the same model were silent for counts like its own.

Times are counted milliseconds of the pool, so a silent bus is no silent job.
"""

from __future__ import annotations

import msgspec

from steepest.events.common import Activity
from steepest.policies.watch.robust import Gaps

KNOWN, KNOWN_REPORTS = 20, 5
"""Steps after which a job's rhythm is known, and the least number of reports of them. A report of several steps says that
none of their gaps was longer than its own."""

SLOW_QUANTILE, SLOW_FACTOR, LONGEST_FACTOR = 0.99, 10.0, 3.0
TYPICAL_FACTOR, TYPICAL_MOST_MS, EVEN = 50.0, 600_000, 5.0
"""A job that was never slow, the longest gap below ``EVEN`` typical ones, has so many typical gaps, up to ten minutes."""

UNSEEN_MS = 3_600_000
"""For what was never seen through: the first evaluation, or the steps of a job that has made few."""

UNSEEN_STILL_MS = 600_000
"""The same for a job that used CPU before and has used none since, once a gap between two reports is known; until then,
``BUSY_MS``."""

UNREAD_MS = 120_000
"""A job that uses CPU for so long without a step is one whose output is not understood."""

STILL_MS = 30_000
"""A job that uses no CPU for so long stands still; it is hung after so long at least."""

BUSY_MS = 1_800_000
"""A job that is busy is hung after so long at least: a deadlock that spins looks like work."""

IDLE_MS, FINISHED_IDLE_MS = 300_000, 60_000
"""Without use for so long a job is idle; one that has done all its steps, after so long."""

USED_CPU_M, USED_SHARE, USED_LEAST_M = 50, 10, 2
"""A job uses CPU if it uses so many millicores, or a tenth of its most and a little."""

SAMPLE_MS, LEAST_SPENT = 2_000, 25_000
"""For how long its use is summed up, and the least sum, in millicores times milliseconds. A tick of the kernel's clock is
10,000 of these: one is no work, and the thread of a hung job that only says that it lives causes it now and then."""


class Silences(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The longest silences of the jobs of a model, in milliseconds.

    Attributes:
        to_first: From a start to the first step; 0: none was seen.
        longest: Between two steps.
        phases: After a line about each activity.
    """

    to_first: int = 0
    longest: int = 0
    phases: dict[Activity, int] = {}

    def and_those_of(self, job: JobRhythm) -> Silences:
        """Also those of a job that has ended."""
        phases = {what: max(longest, self.phases.get(what, 0)) for what, longest in job.phases.items()}
        return Silences(
            to_first=max(self.to_first, job.to_first_ms),
            longest=max(self.longest, job.gaps.longest),
            phases={**self.phases, **phases},
        )


class JobRhythm(msgspec.Struct, kw_only=True, gc=False):
    """What is remembered of a job.

    Attributes:
        incarnation: Of the process that runs.
        at_ms: Until when it is accounted.
        silent_ms: Since its last step, less what a limit has taken.
        gaps: Between reports of its steps, of all incarnations.
        seen: The steps in these gaps.
        activity: What its newest line is about.
        phases: The longest silence after a line about each activity that is a phase of its own.
        earlier: What is known of earlier jobs of its model.
        begun: Whether this incarnation has made a step.
        to_first_ms: The longest time from a start to the first step; 0: none was seen.
        step: The furthest one.
        mark: Epoch and loss, which change where there are no steps.
        busy_ms: When it last used CPU.
        most_m: The most CPU that it used, in millicores.
        spent: What it used since ``sampled_ms``, in millicores times milliseconds.
        paced_ms: The time of records since its last step, less what a limit and the other jobs of a full node have taken.
            Counted time moves by whole ticks, which is too coarse for a pace.
        paced_at_ms: The time of the record until which that is accounted.
        step_ms: The time of each of its newest steps; None: there is none since it was looked at.
        stopped: A replica that a signal has stopped; None: none is known to be.
    """

    incarnation: int
    at_ms: int
    silent_ms: float = 0.0
    gaps: Gaps = msgspec.field(default_factory=Gaps)
    seen: int = 0
    activity: Activity | None = None
    phases: dict[Activity, int] = {}
    earlier: Silences = msgspec.field(default_factory=Silences)
    begun: bool = False
    to_first_ms: int = 0
    step: int = -1
    mark: tuple[float | None, float | None] = (None, None)
    busy_ms: int
    most_m: int = 0
    spent: int = 0
    sampled_ms: int = 0
    paced_ms: float = 0.0
    paced_at_ms: int = 0
    step_ms: float | None = None
    stopped: int | None = None

    def restart(self, incarnation: int, now_ms: int) -> None:
        """Another process runs from here on."""
        self.incarnation, self.at_ms, self.busy_ms = incarnation, now_ms, now_ms
        self.silent_ms, self.begun, self.step, self.mark = 0.0, False, -1, (None, None)
        self.paced_ms, self.step_ms, self.activity, self.stopped = 0.0, None, None, None

    def pass_over(self, now_ms: int, record_ms: int) -> None:
        """Time in which nothing is expected of it: it is saved, stopped or moved."""
        self.at_ms = self.busy_ms = self.sampled_ms = now_ms
        self.paced_at_ms = record_ms

    def use(self, cpu_m: int, limit_m: int | None, now_ms: int, record_ms: int, *, is_full: bool = False) -> None:
        """Account the time until now, in which it used so much; ``is_full``: other jobs may have taken the rest."""
        self.most_m = max(self.most_m, cpu_m)
        share = 1.0 if limit_m is None or limit_m >= self.most_m else limit_m / self.most_m
        self.silent_ms += (now_ms - self.at_ms) * share
        got = min(share, cpu_m / self.most_m) if is_full and self.most_m else share
        self.paced_ms += max(0, record_ms - self.paced_at_ms) * got
        self.paced_at_ms = record_ms
        self.spent += cpu_m * (now_ms - self.at_ms)
        self.at_ms = now_ms
        if (sampled_ms := now_ms - self.sampled_ms) < SAMPLE_MS:
            return
        is_held_back = limit_m is not None and 2 * cpu_m >= limit_m
        least = min(USED_CPU_M, max(self.most_m // USED_SHARE, USED_LEAST_M) + 1)
        if is_held_back or self.spent >= max(LEAST_SPENT, least * sampled_ms):
            self.busy_ms = now_ms
        self.spent, self.sampled_ms = 0, now_ms

    def hear(self, step: int | None, mark: tuple[float | None, float | None], activity: Activity | None = None) -> None:
        """Take in a report. A step shows that the training goes on, and so does a line about something else.

        Without an activity it is as before: a collector that has started again does not know what was printed.
        """
        activity = activity or self.activity
        goes_on = self._advances(step, mark)
        if self.begun and (goes_on or activity is not self.activity):
            self._end_silence()
        elif goes_on:
            self.to_first_ms = max(self.to_first_ms, int(self.silent_ms))
            self.begun, self.silent_ms = True, 0.0
        self.activity = activity

    def note_stopped(self, replica: int, *, stopped: bool) -> None:
        """Take in whether a signal has stopped a replica."""
        if stopped or self.stopped == replica:
            self.stopped = replica if stopped else None

    def _end_silence(self) -> None:
        silent_ms, phase = int(self.silent_ms), self.phase
        if phase is None:
            self.gaps.add(silent_ms)
            self.seen += 1
        else:
            self.phases = {**self.phases, phase: max(silent_ms, self.phases.get(phase, 0))}
        self.silent_ms = 0.0

    @property
    def phase(self) -> Activity | None:
        """The phase that its newest line names; None: its steps."""
        return None if self.activity is Activity.OTHER else self.activity

    @property
    def longest_ms(self) -> int:
        """The longest silence of its own in this phase; 0: there was none."""
        return self.gaps.longest if self.phase is None else self.phases.get(self.phase, 0)

    def _advances(self, step: int | None, mark: tuple[float | None, float | None]) -> bool:
        if step is not None:
            if step <= self.step:
                return False
            if self.begun and self.step >= 0 and self.paced_ms > 0:
                self.step_ms = self.paced_ms / (step - self.step)
            if self.begun and self.step >= 0:
                self.seen += step - self.step - 1  # and one for the gap
            self.step, self.paced_ms = step, 0.0
        elif self.step >= 0 or mark in {self.mark, (None, None)}:
            return False
        self.mark = mark
        return True

    @property
    def allowed_ms(self) -> float:
        """The silence that its rhythm explains."""
        gaps, phase, earlier = self.gaps, self.phase, self.earlier
        if not self.begun:
            return LONGEST_FACTOR * max(self.to_first_ms, earlier.to_first)
        if (self.seen < KNOWN or gaps.count < KNOWN_REPORTS) and not earlier.longest:
            still_ms = UNSEEN_STILL_MS if gaps.count else BUSY_MS
            is_still = self.unused_ms >= still_ms and self.most_m >= USED_CPU_M
            return max(still_ms if is_still else UNSEEN_MS, LONGEST_FACTOR * gaps.longest)
        longest = max(gaps.longest, earlier.longest)
        allowed = max(SLOW_FACTOR * gaps.quantile(SLOW_QUANTILE), LONGEST_FACTOR * longest)
        if longest < EVEN * (typical := gaps.quantile(0.5)):
            allowed = max(allowed, min(TYPICAL_MOST_MS, TYPICAL_FACTOR * typical))
        if phase is None:
            return allowed
        seen = max(self.phases.get(phase, 0), earlier.phases.get(phase, 0))
        return max(allowed, LONGEST_FACTOR * seen if seen else UNSEEN_MS)

    @property
    def unused_ms(self) -> int:
        """For how long it has used no CPU."""
        return self.at_ms - self.busy_ms

    @property
    def is_unread(self) -> bool:
        """Whether it works, and nothing that was read says how far it is."""
        return not self.begun and self.silent_ms >= UNREAD_MS and self.unused_ms < STILL_MS

    @property
    def is_hung(self) -> bool:
        """Whether a signal has stopped it, or it is silent for longer than its rhythm and its use explain.

        Then it has made a step before.
        """
        if self.stopped is not None:
            return True
        if not (self.begun or self.to_first_ms or self.earlier.to_first) or self.silent_ms <= STILL_MS:
            return False
        least = STILL_MS if self.unused_ms >= STILL_MS else BUSY_MS
        return self.silent_ms > max(least, self.allowed_ms)
