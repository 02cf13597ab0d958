"""``steepest-gangs``: the rule by which ``steepest`` gives gangs whole devices, next to the published baselines.

The order of gangs, their promises and the fluid behind them are the product's
(:mod:`steepest.policies.steepest.devices.gang_order`, :mod:`steepest.policies.steepest.devices.fair_devices`); here it
knows each job's length, and devices are counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from steepest.policies.steepest.devices.fair_devices import FairDevices
from steepest.policies.steepest.devices.gang_order import SIZE, WholeGang, by_level, divide, in_turn, promise
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
    """

    slot_s: float = 300.0
    start_s: float = 20.0
    min_run_s: float = 60.0
    lateness: float = 0.03
    knows: bool = True


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
            fair.know(str(job.number), float(job.asked), (job.work_s + rule.start_s) * job.asked, now_s)
        fair.look(now_s)
        jobs = self.state.update(arrived, ended)
        gangs = [self._gang(job, now_s) for job in jobs]
        promised = promise(gangs, float(capacity), rule.slot_s, rule.lateness)
        for job, tier in zip(jobs, promised.tiers, strict=True):
            self.tiers[job.number] = tier
        free = capacity - sum(job.asked for job, gang in zip(jobs, gangs, strict=True) if gang.pinned)

        def take(index: int) -> bool:
            nonlocal free
            fits = jobs[index].asked <= free
            free -= jobs[index].asked if fits else 0
            return fits

        chosen = divide(gangs, in_turn(gangs, promised, float(capacity), rule.slot_s), take)
        runs = [job for job, gang in zip(jobs, gangs, strict=True) if gang.pinned] + [jobs[index] for index in chosen]
        self._since = {job.number: self._since.get(job.number, now_s) for job in runs}
        self._waits = len(runs) < len(jobs)
        return ServiceOrder(jobs=runs)

    def again_s(self, now_s: float, running: Sequence[ActiveJob]) -> float:
        """After a slot, while jobs wait."""
        del running
        return now_s + self.parameters.slot_s if self._waits else math.inf

    def _gang(self, job: ActiveJob, now_s: float) -> WholeGang:
        runs, cost_s = job.units > 0, self.parameters.start_s
        copy = self.fair.gangs[str(job.number)]
        left_s = max(job.remaining_s, 1.0)
        return WholeGang(
            name=str(job.number),
            devices=float(job.asked),
            left_s=left_s if self.parameters.knows else None,
            start_s=0.0 if runs else cost_s,
            stop_s=cost_s,
            came_s=job.submit_s - now_s,
            fair_end_s=None if copy.ends_s is None or not self.parameters.knows else copy.ends_s - now_s,
            tier=self.tiers.get(job.number, 0),
            index=1 / left_s / job.asked**SIZE
            if self.parameters.knows
            else by_level(job.attained_s * job.asked, LEVELS),
            runs=runs,
            pinned=runs and now_s - self._since.get(job.number, now_s) < self.parameters.min_run_s,
        )
