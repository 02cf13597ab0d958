"""``steepest-gangs``: the rule by which ``steepest`` gives gangs whole devices, next to the published baselines.

The order of gangs, their promises and the fluid behind them are the product's
(:mod:`steepest.policies.steepest.devices.gang_order`, :mod:`steepest.policies.steepest.devices.fair_devices`); here it
knows what each job announces of its length, and devices are counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from steepest.policies.steepest.devices.fair_devices import FairDevices
from steepest.policies.steepest.devices.gang_order import WholeGang, by_level, divide, in_turn, promise
from steepest_lab.baselines.policy import Active, ActiveJob, ServiceOrder

LEVELS = (3_250.0, 7_200.0)
"""As the product's pools have them."""


class SteepestGangsParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of the rule, in seconds.

    Attributes:
        slot_s: Between two decisions while jobs wait.
        start_s: What a start is taken to cost.
        min_run_s: For how long a job keeps its devices.
        lateness: As a share of the fair completion time.
        knows: Whether it knows how long jobs run; else it goes by attained service, in levels.
        elastic: A gang may have up to this many times fewer or more GPUs than it asks for; 1: it may not.
        pays: A resize gains this many times its cost.
    """

    slot_s: float = 300.0
    start_s: float = 20.0
    min_run_s: float = 60.0
    lateness: float = 0.03
    knows: bool = True
    elastic: float = 1.0
    pays: float = 4.0


class SteepestGangs:
    """Whole gangs: promises first, then the tail, then the value of a device-second (steepest)."""

    name: ClassVar[str] = "steepest-gangs"
    reads_losses: ClassVar[bool] = False

    def __init__(self, parameters: SteepestGangsParameters | None = None, state: Active | None = None) -> None:
        self.parameters = parameters or SteepestGangsParameters()
        self.state = state or Active()
        self.fair = FairDevices()
        self._since: dict[int, float] = {}
        self.tiers: dict[int, int] = {}
        self._waits = False

    def order(
        self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int
    ) -> ServiceOrder:
        """The gangs that hold devices from now on."""
        rule, fair = self.parameters, self.fair
        fair.resize(float(capacity), now_s)
        for job in ended:
            fair.finish(str(job.number), (job.work_s + rule.start_s) * job.asked, now_s)
            self.tiers.pop(job.number, None)
        for job in arrived:
            said_s = job.work_s * job.announced + rule.start_s
            fair.know(str(job.number), float(job.asked), said_s * job.asked, now_s)
        fair.look(now_s)
        jobs = self.state.update(arrived, ended)
        gangs = [self._gang(job, now_s) for job in jobs]
        promised = promise(gangs, float(capacity), rule.slot_s, rule.lateness)
        for job, tier in zip(jobs, promised.tiers, strict=True):
            self.tiers[job.number] = tier
        units = {index: self._least(jobs[index]) for index, gang in enumerate(gangs) if gang.pinned}
        free = capacity - sum(units.values())

        def take(index: int) -> bool:
            nonlocal free
            units[index] = (
                self._least(jobs[index]) if self._least(jobs[index]) <= free else self._fewest(jobs[index], free)
            )
            free -= units[index]
            return units[index] > 0

        divide(gangs, in_turn(gangs, promised, float(capacity), rule.slot_s), take)
        units = {index: count for index, count in units.items() if count}
        for index in sorted(units, key=lambda index: -gangs[index].rank):
            more = self._grown(jobs[index], units[index], free, pinned=gangs[index].pinned) - units[index]
            units[index], free = units[index] + more, free - more
        runs = {jobs[index].number: jobs[index] for index in units}
        resized = {jobs[index].number for index, count in units.items() if jobs[index].units not in (0, count)}
        self._since = {number: now_s if number in resized else self._since.get(number, now_s) for number in runs}
        self._waits = len(runs) < len(jobs)
        return ServiceOrder(jobs=list(runs.values()), units=list(units.values()))

    def _least(self, job: ActiveJob) -> int:
        """The units that a gang keeps, or asks for; what it has grown by is for those that wait."""
        return min(job.units or job.asked, job.asked)

    def _fewest(self, job: ActiveJob, free: int) -> int:
        """The units of a gang that starts smaller than it asks for; 0: it does not."""
        return free if job.units == 0 and free >= job.asked / self.parameters.elastic and free else 0

    def _grown(self, job: ActiveJob, units: int, free: int, *, pinned: bool) -> int:
        """The units of a gang with what is left: as it has grown before, or more if that pays."""
        kept = min(max(job.units, units), units + free)
        most = min(int(job.asked * self.parameters.elastic), units + free)
        if most <= kept or pinned:
            return kept
        saves_s = job.left * (job.step_s_with(kept) - job.step_s_with(most))
        costs_s = self.parameters.start_s if job.units == kept else 0.0
        return most if saves_s > (1 + self.parameters.pays) * costs_s else kept

    def again_s(self, now_s: float, running: Sequence[ActiveJob]) -> float:
        """After a slot, while jobs wait."""
        del running
        return now_s + self.parameters.slot_s if self._waits else math.inf

    def _gang(self, job: ActiveJob, now_s: float) -> WholeGang:
        runs, cost_s = job.units > 0, self.parameters.start_s
        copy = self.fair.gangs[str(job.number)]
        units, left = self._least(job), job.left + (job.announced - 1) * job.iterations
        knows, left_s = self.parameters.knows and left > 0, max(left * job.step_s_with(units), 1.0)
        return WholeGang(
            name=str(job.number),
            devices=float(units),
            left_s=left_s if knows else None,
            start_s=0.0 if runs else cost_s,
            stop_s=cost_s,
            came_s=job.submit_s - now_s,
            fair_end_s=None if copy.ends_s is None or not knows else copy.ends_s - now_s,
            tier=self.tiers.get(job.number, 0),
            index=1 / left_s if knows else by_level(job.attained_s * job.asked, LEVELS),
            runs=runs,
            pinned=runs and now_s - self._since.get(job.number, now_s) < self.parameters.min_run_s,
        )
