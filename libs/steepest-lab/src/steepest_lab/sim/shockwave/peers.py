"""Shockwave's peers in its rounds, and our rule.

The first five follow Gavel's mechanism (Narayanan et al., OSDI 2020): each job has a fraction of the time as its share,
reckoned again at most every 1,000 s, and the jobs run first that have received the smallest part of theirs. Their shares are
worked out again from the papers: max-min, ``ossp`` (the shortest makespan: every job ends at the same time), ``themis`` (the
least worst finish-time fairness) and ``allox`` (an assignment to places in line). Where a programme has many optima, the
published results have the one that their solver found, and these another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from steepest.policies.steepest.devices.fair_devices import FairDevices
from steepest.policies.steepest.devices.gang_order import WholeGang, divide, in_turn, promise
from steepest.policies.steepest.learning import worth
from steepest_lab.sim.shockwave.jobs import RoundJob
from steepest_lab.sim.shockwave.rounds import RESTART_S, ROUND_S

RESET_S = 1_000.0

HALVINGS = 100

ALLOX_SHARE = 0.2
"""Of the jobs that wait, AlloX looks at this share, those first that came first, or at as many as there are GPUs."""


class Gavel:
    """Priorities by the share of the time that each job is to have and has had.

    Attributes:
        took: Whether the newest change is part of the shares.
    """

    def __init__(self, shares: Callable[[Sequence[RoundJob], float, int], dict[int, float]]) -> None:
        self._shares = shares
        self._share: dict[int, float] = {}
        self._time: dict[int, float] = {}
        self._deficit: dict[int, float] = {}
        self._priority: dict[int, float] = {}
        self._all = self._reset_s = 0.0
        self.took = True

    def arrived(self, job: RoundJob, now_s: float) -> None:
        """See ``RoundPolicy.arrived``."""
        del now_s
        self._time[job.number], self._deficit[job.number], self._priority[job.number] = ROUND_S / 2, 0.0, 0.0

    def done(self, job: RoundJob, took_s: float) -> None:
        """See ``RoundPolicy.done``."""
        self._time[job.number] += took_s
        self._all += took_s

    def gone(self, job: RoundJob, now_s: float) -> None:
        """See ``RoundPolicy.gone``."""
        del now_s
        for known in (self._time, self._deficit, self._priority):
            del known[job.number]

    def choose(self, active: Sequence[RoundJob], now_s: float, gpus: int, *, changed: bool) -> Sequence[RoundJob]:
        """See ``RoundPolicy.choose``."""
        self.took = changed and (now_s - self._reset_s >= RESET_S or self._reset_s == 0)
        if self.took:
            self._reset(now_s)
            self._share = self._shares(active, now_s, gpus)
        for number in self._priority:
            share = self._share.get(number)
            had = self._time[number] / self._all if self._all else 0.0
            self._priority[number] = 0.0 if share is None else share / had if share and had > 0 else share * 1e9
        jobs = {job.number: job for job in active}

        def key(number: int) -> tuple[float, float, float]:
            return self._priority[number], self._deficit[number], self._share.get(number, 0.0)

        chosen = packed([jobs[number] for number in sorted(self._priority, key=key, reverse=True)], gpus)
        return [job for job in chosen if job.number in self._share]

    def _reset(self, now_s: float) -> None:
        elapsed, self._reset_s, self._all = now_s - self._reset_s, now_s, 0.0
        for number in self._time:
            self._deficit[number] += self._share.get(number, 0.0) * elapsed - (self._time[number] - ROUND_S / 2)
            self._time[number] = ROUND_S / 2
            self._all += self._time[number]


def packed(jobs: Sequence[RoundJob], gpus: int) -> list[RoundJob]:
    """Those that fit, in their order; others are passed over."""
    chosen = []
    for job in jobs:
        if job.gpus <= gpus:
            chosen.append(job)
            gpus -= job.gpus
    return chosen


def max_min(jobs: Sequence[RoundJob], now_s: float, gpus: int) -> dict[int, float]:
    """Every job as many GPUs on average, up to what its gang is."""
    del now_s
    left, shares = float(gpus), dict[int, float]()
    for place, job in enumerate(sorted(jobs, key=lambda job: job.gpus)):
        each = min(left / (len(jobs) - place), float(job.gpus))
        shares[job.number] = each / job.gpus
        left -= each
    return shares


def ossp(jobs: Sequence[RoundJob], now_s: float, gpus: int) -> dict[int, float]:
    """All end together, as early as the GPUs allow."""
    del now_s
    left = [job.seen_left_s for job in jobs]
    end_s = max(*left, sum(one * job.gpus for one, job in zip(left, jobs, strict=True)) / gpus)
    return {job.number: one / end_s for one, job in zip(left, jobs, strict=True)}


def allox() -> Callable[[Sequence[RoundJob], float, int], dict[int, float]]:
    """AlloX (Le et al., EuroSys 2020): the first in line of a GPU keeps it to its end."""
    before: dict[int, float] = {}

    def shares(jobs: Sequence[RoundJob], now_s: float, gpus: int) -> dict[int, float]:
        nonlocal before
        from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - an optional dependency

        free = [job for job in jobs if before.get(job.number) != 1.0]
        places = gpus - (len(jobs) - len(free))
        found = {job.number: before.get(job.number, 0.0) for job in jobs}
        free.sort(key=lambda job: job.profile.submit_s)
        free = free[: max(int(ALLOX_SHARE * len(free)), places)]
        first: Sequence[int] = range(len(free))
        if 0 < places < len(free):
            costs = [
                [
                    place * job.seen_left_s + now_s - job.profile.submit_s
                    for place in range(1, len(free) + 1)
                    for _ in range(places)
                ]
                for job in free
            ]
            best: dict[int, tuple[int, int]] = {}
            for row, column in zip(*linear_sum_assignment(costs), strict=True):
                line, place = int(column) % places, int(column) // places
                if line not in best or place > best[line][0]:
                    best[line] = (place, int(row))
            first = [row for _, row in best.values()]
        if places > 0:
            found |= {free[row].number: 1.0 / free[row].gpus for row in first}
        before = dict(found)
        return found

    return shares


def themis() -> Callable[[Sequence[RoundJob], float, int], dict[int, float]]:
    """Themis (Mahajan et al., NSDI 2020) as Gavel has it: the least worst ρ, against equal parts since each job came."""
    alone: dict[int, float] = {}
    since: dict[int, tuple[float, float]] = {}

    def shares(jobs: Sequence[RoundJob], now_s: float, gpus: int) -> dict[int, float]:
        fair: list[float] = []
        for job in jobs:
            left = float(job.total - job.steps)
            rate = job.rate * min(1.0, gpus / len(jobs) / job.gpus)
            if job.number in since:
                steps, then = since[job.number]
                alone[job.number] = alone.get(job.number, 0.0) + (steps - left) / then
            since[job.number] = (left, rate)
            fair.append(alone.get(job.number, 0.0) + left / rate)

        def needed(rho: float) -> list[float]:
            rooms = [rho * whole - (now_s - job.profile.submit_s) for whole, job in zip(fair, jobs, strict=True)]
            return [job.seen_left_s / room if room > 0 else math.inf for room, job in zip(rooms, jobs, strict=True)]

        low, high = 0.0, 1e4
        for _ in range(HALVINGS):
            rho = (low + high) / 2
            found = needed(rho)
            fits = max(found) <= 1 and sum(one * job.gpus for one, job in zip(found, jobs, strict=True)) <= gpus
            low, high = (low, rho) if fits else (rho, high)
        return {job.number: min(one, 1.0) for one, job in zip(needed(high), jobs, strict=True)}

    return shares


class InOrder:
    """Jobs by a key, least first, packed with skips."""

    def __init__(self, key: Callable[[RoundJob], float]) -> None:
        self._key = key

    def arrived(self, job: RoundJob, now_s: float) -> None:
        """See ``RoundPolicy.arrived``."""

    def done(self, job: RoundJob, took_s: float) -> None:
        """See ``RoundPolicy.done``."""

    def gone(self, job: RoundJob, now_s: float) -> None:
        """See ``RoundPolicy.gone``."""

    def choose(self, active: Sequence[RoundJob], now_s: float, gpus: int, *, changed: bool) -> Sequence[RoundJob]:
        """See ``RoundPolicy.choose``."""
        del now_s, changed
        return packed(sorted(active, key=lambda job: (self._key(job), job.number)), gpus)


LEVELS = (3_250.0, 7_200.0)


def level(job: RoundJob) -> float:
    """Tiresias (Gu et al., NSDI 2019): levels of attained service, by arrival within one."""
    return sum(job.ran_s * job.gpus >= limit for limit in LEVELS) * 1e9 + job.profile.submit_s


class Ours:
    """The order of gangs, their promises and the fluid behind them are the product's; GPUs are counted.

    Args:
        left_s: The estimated rest of a job.
        learning: λ, as a share of a job's value.
    """

    def __init__(self, left_s: Callable[[RoundJob], float], learning: float = 0.0) -> None:
        self._left_s, self._learning = left_s, learning
        self._fair = FairDevices()
        self._tiers: dict[int, int] = {}
        self._last: dict[int, None] = {}

    def arrived(self, job: RoundJob, now_s: float) -> None:
        """See ``RoundPolicy.arrived``."""

    def done(self, job: RoundJob, took_s: float) -> None:
        """See ``RoundPolicy.done``."""

    def gone(self, job: RoundJob, now_s: float) -> None:
        """See ``RoundPolicy.gone``."""
        self._fair.finish(str(job.number), (job.ran_s + RESTART_S) * job.gpus, now_s)

    def choose(self, active: Sequence[RoundJob], now_s: float, gpus: int, *, changed: bool) -> Sequence[RoundJob]:
        """See ``RoundPolicy.choose``."""
        del changed
        self._fair.resize(float(gpus), now_s)
        for job in active:
            size = (self._left_s(job) + job.ran_s + RESTART_S) * job.gpus
            self._fair.know(str(job.number), float(job.gpus), size, now_s)
        self._fair.look(now_s)
        gangs = [self._gang(job, now_s) for job in active]
        promised = promise(gangs, float(gpus), float(ROUND_S), 0.03)
        self._tiers = {job.number: tier for job, tier in zip(active, promised.tiers, strict=True)}
        free = gpus

        def take(index: int) -> bool:
            nonlocal free
            fits = active[index].gpus <= free
            free -= active[index].gpus if fits else 0
            return fits

        chosen = divide(gangs, in_turn(gangs, promised, float(gpus), float(ROUND_S)), take)
        self._last = dict.fromkeys(active[index].number for index in chosen)
        return [active[index] for index in chosen]

    def _gang(self, job: RoundJob, now_s: float) -> WholeGang:
        left_s, runs = self._left_s(job), job.number in self._last
        copy = self._fair.gangs[str(job.number)]
        return WholeGang(
            name=str(job.number),
            devices=float(job.gpus),
            left_s=left_s,
            start_s=0.0 if runs else float(RESTART_S),
            stop_s=float(RESTART_S),
            came_s=job.profile.submit_s - now_s,
            fair_end_s=None if copy.ends_s is None else copy.ends_s - now_s,
            tier=self._tiers.get(job.number, 0),
            index=worth(job.ran_s / (job.ran_s + left_s), left_s, self._learning),
            runs=runs,
        )
