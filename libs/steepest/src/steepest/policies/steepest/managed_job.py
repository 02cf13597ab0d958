"""What the planner remembers of a job that runs: what it used, what it can use, and what was planned for it.

A job's *demand*, the CPU that it can use, shows only while nothing holds it back: it uses clearly less than its limit, if
it has one, and its node has idle CPU. Jobs that could use more than the whole node still leave a little of it idle over a
second, because of throttling and of other processes on the machine. Two such jobs, taken for satisfied, would never be
limited.

Idle CPU says nothing where the node does not have what it declares: others on the machine take it. Such a node is *short*:
a job gets less than it got before, though no limit holds it back, or several that may want more get equal parts, as a
scheduler that is out of CPU divides it. What the jobs of a short node use is all that it gives.

A job that uses far less than its part lacks nothing, on any node: the operating system would give it more. It *rests*, and
its use is its demand, until it uses more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from steepest.policies.steepest.learning_history import LossCourse

FULL = 0.97
"""A job whose measured use is at least this share of an amount of CPU uses all of it."""

TO_SPARE = 0.15
"""A node has CPU to spare if at least this share of it is idle; emulated nodes that are in demand are idle for up to 20 % of
some seconds."""

SETTLES_S = 5.5
"""Seconds from its start for which a job's use shows nothing yet; one measurement is the mean of up to five seconds."""

LACKS = 0.85
"""A job lacks CPU that gets at most this share of what it got before, and of its limit, in two measurements in a row. Its
limit does not hold it back then."""

ALL_LACK = 0.95
"""So do all jobs of a node that get at most this share of it together."""

RESTS = 0.5
"""A job rests that uses less than this share of an equal part of what its node's jobs use, and of its limit, in two
measurements in a row."""

SAME = 0.05
"""Uses that differ by less than this share are equal."""


class ManagedJob(msgspec.Struct):
    """An incarnation of a job. Times are seconds of counted time, CPU is in cores, work in core-seconds.

    Attributes:
        model: What it trains, as its user names it; empty: not said.
        began_s: When the job first trained.
        since_s: When this incarnation did.
        seen_s: When its use was measured last.
        cpu: Its use then.
        used: Its work up to then, over all incarnations.
        used_before: Its work when this incarnation began to train.
        used_reported: Its work when it last reported a further step, or epoch.
        step: Which that was.
        start: Its work before its first step: imports, loading data. What later incarnations need is the price of moves.
        most: The highest use that was ever measured.
        demand: What it can use, as measured; None: it never showed.
        lacks: Whether it got less than before when it was measured last, though no limit held it back.
        rests: How often in a row it used far less than its part.
        limit_m: The limit that was planned last for this incarnation, in millicores; None: none.
        planned: Whether a plan in the log, or on its way there, says so.
        tightest_m: The lowest limit in force since ``seen_s``; None: none was.
        size: The whole job, as it was known last: one that was moved says nothing until its first steps.
        left: What was left of it then.
        step_ms: CPU time of its steps, as measured last.
        losses: Some of its losses.
        total: Its steps as they were announced, when that was believed last.
        ahead: What it had got more than its fair copy when its size proved to be unknown, as far as it has not given that
            back. It led, or was served before others, by what it seemed to be.
        unlimited_until_s: No limit is planned before, because one was refused.
        rate: The CPU that the newest plan of its node wants it to have.
    """

    node: str
    model: str
    incarnation: int
    began_s: float
    since_s: float
    seen_s: float
    cpu: float = 0.0
    used: float = 0.0
    used_before: float = 0.0
    used_reported: float = 0.0
    step: int | None = None
    start: float = 0.0
    most: float = 0.0
    demand: float | None = None
    lacks: bool = False
    rests: int = 0
    limit_m: int | None = None
    planned: bool = True
    in_force_m: int | None = None
    tightest_m: int | None = None
    size: float | None = None
    left: float | None = None
    step_ms: float | None = None
    losses: LossCourse = msgspec.field(default_factory=LossCourse)
    total: int | None = None
    ahead: float = math.inf
    unlimited_until_s: float = 0.0
    rate: float = 0.0

    def used_by(self, now_s: float) -> float:
        """Its work up to now, if it goes on as it was measured last."""
        return self.used + self.cpu * max(0.0, now_s - self.seen_s)

    @property
    def overrun(self) -> float:
        """How many times the total that it announced it has done."""
        return self.step / self.total if self.step and self.total else 0.0

    def measure(self, cpu_m: int, now_s: float) -> None:
        """Its mean use since it was measured last."""
        self.cpu = cpu_m / 1000
        self.used += self.cpu * max(0.0, now_s - self.seen_s)
        self.seen_s = now_s
        self.most = max(self.most, self.cpu)

    def pause(self, now_s: float) -> None:
        """It is suspended: from here on it works on nothing."""
        self.used, self.cpu, self.seen_s = self.used_by(now_s), 0.0, now_s

    def limit(self, limit_m: int | None) -> None:
        """This limit is in force from here on."""
        self.in_force_m = limit_m
        if limit_m is not None:
            self.tightest_m = limit_m if self.tightest_m is None else min(self.tightest_m, limit_m)

    def refuse(self, until_s: float) -> None:
        """A limit was refused: until then none is planned."""
        self.limit_m, self.unlimited_until_s = self.in_force_m, until_s

    @property
    def is_held(self) -> bool:
        """Whether a limit may hold it back."""
        return self.tightest_m is not None and self.cpu >= LACKS * self.tightest_m / 1000

    @property
    def wants(self) -> bool:
        """Whether it may want more than it gets, and no limit is why: it uses less than its demand, or that never showed."""
        return not self.is_held and (self.demand is None or self.cpu < (1 - SAME) * self.demand)

    def able(self, cores: float) -> float:
        """What it would use on a node with so many cores, were there enough."""
        return min(self.most, math.inf if self.tightest_m is None else self.tightest_m / 1000, cores)


def measure_node(
    jobs: Mapping[str, ManagedJob], uses_m: Mapping[str, int], capacity_m: int, now_s: float
) -> tuple[list[str], bool]:
    """Take in the measured use of a node: the jobs whose demand showed for the first time, and whether the node is short.

    Args:
        jobs: The running jobs by name; others on the node are of no concern here.
        uses_m: Use of every job on the node, in millicores.
        capacity_m: The CPU that the node declares.
        now_s: Counted time.
    """
    here = {name: jobs[name] for name in uses_m if name in jobs}
    for name, job in here.items():
        job.measure(uses_m[name], now_s)
    cores = capacity_m / 1000
    is_full = sum(uses_m.values()) > (1 - TO_SPARE) * capacity_m
    settled = [job for job in here.values() if now_s - job.since_s > SETTLES_S]
    _find_resting(settled)
    settled = [job for job in settled if not job.rests and job.cpu > 0]
    lack = _lack(settled, cores)
    alike = not is_full and _are_alike([job for job in settled if job.tightest_m is None and job.wants])
    may_be_full = is_full or alike or any(job.lacks for job in settled)
    shown = []
    for name, job in here.items():  # where nothing holds a job back, its use is its demand, if less than the whole node
        if not may_be_full and job in settled and not job.is_held and job.cpu < FULL * cores:
            shown += [name] if job.demand is None else []
            job.demand = job.cpu
        job.tightest_m = job.in_force_m
    return shown, alike or lack


def _find_resting(jobs: Sequence[ManagedJob]) -> None:
    """Count for each how often in a row it rested."""
    part = sum(job.cpu for job in jobs) / max(len(jobs), 1)
    for job in jobs:
        job.rests = job.rests + 1 if job.cpu < RESTS * job.able(part) else 0


def _lack(jobs: Sequence[ManagedJob], cores: float) -> bool:
    """Whether any job lacks CPU, now and when it was measured before."""
    all_lack, found = sum(job.cpu for job in jobs) < ALL_LACK * sum(job.able(cores) for job in jobs), False
    for job in jobs:
        before, job.lacks = job.lacks, all_lack or job.cpu < LACKS * job.able(cores)
        found = found or (before and job.lacks)
    return found


def _are_alike(jobs: Sequence[ManagedJob]) -> bool:
    """Whether the two that use most use the same."""
    uses = sorted([job.cpu for job in jobs], reverse=True)
    return len(uses) > 1 and uses[1] >= (1 - SAME) * uses[0]
