"""A node in virtual time: it shares its CPU among its trainings, and calls each when its next step is due.

It owns the pace of trainings. A node has one timer, for the training that is due first, so the cost of a change depends only
on the number of trainings on this node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from steepest.events.common import Resources
from steepest_lab.simulated.lockstep import Lockstep, couple_all
from steepest_lab.simulated.model import Model
from steepest_lab.simulated.shares import share_out, slowdown
from steepest_lab.simulated.storage import SharedStorage
from steepest_lab.simulated.timeline import Timeline, Timer

DUE_TOLERANCE_S = 1e-9
"""Tolerance for due times, in seconds: the rounding error of float sums is smaller."""

_STEP_TOLERANCE = 1e-6

LEFT_M = 1e-6
"""Less is a rounding error."""


class CpuConsumer(Protocol):
    """A training as its node sees it: a consumer of CPU.

    Attributes:
        done: Steps completed at ``since_s``.
        pace: Steps per second since then.
        share_m: CPU share, in millicores.
        limit_m: CPU limit in millicores; None: no limit.
        own_pace: ``pace``, if it did not wait for the other members of its gang.
        own_share_m: ``share_m`` likewise.
        gang: The trainings with which it does each step together; None: it trains alone.
    """

    model: Model
    done: float
    since_s: float
    pace: float
    share_m: float
    limit_m: int | None
    own_pace: float
    own_share_m: float
    gang: Lockstep | None

    def advance(self, now_s: float) -> None:
        """Add the steps completed up to now."""

    def target(self) -> float:
        """The step at which the node must call ``reach``."""

    def reach(self, step: int) -> None:
        """Called when ``step`` is completed."""


class SimulatedNode:
    """One node.

    Attributes:
        lost: The node has failed and starts nothing.
        training: The trainings that execute steps now; those that launch, save or wait are not included.
    """

    def __init__(
        self,
        name: str,
        capacity: Resources,
        timeline: Timeline,
        *,
        speed: float = 1.0,
        storage_mib_s: float = 500.0,
        storage: SharedStorage | None = None,
        caps_yield: bool = False,
        gives_m: int | None = None,
        contention: float = 0.0,
    ) -> None:
        """A node.

        Args:
            name: Its name.
            capacity: Its resources.
            timeline: The source of time and timers.
            speed: Speed of steps relative to the node on which the models were measured.
            storage_mib_s: Rate at which checkpoints are written and read, in MiB/s.
            storage: What all nodes share, where its bandwidth counts too.
            gives_m: CPU that is really available, in millicores: less than the capacity if others use the machine too.
            caps_yield: Whether idle CPU also goes to trainings beyond their caps.
            contention: How strongly demand in excess of the CPU slows every training on the node: see :func:`slowdown`.
        """
        self.name = name
        self.capacity = capacity
        self.speed = speed
        self.storage_mib_s = storage_mib_s
        self.storage = storage
        self.lost = False
        self.training: dict[CpuConsumer, None] = {}
        self._gives_m = capacity.cpu_m if gives_m is None else gives_m
        self._caps_yield = caps_yield
        self._contention = contention
        self._slower = 1.0
        self._timeline = timeline
        self._timer: Timer | None = None

    def enter(self, training: CpuConsumer) -> None:
        """The training executes steps from now on."""
        training.since_s = self._timeline.now_s()
        self.training[training] = None
        self.share()

    def leave(self, training: CpuConsumer) -> None:
        """The training stops executing steps; does nothing if it does not."""
        if training not in self.training:
            return
        now_s = self._timeline.now_s()
        training.advance(now_s)
        del self.training[training]
        training.pace = training.share_m = training.own_pace = training.own_share_m = 0.0
        if training.gang is not None:
            training.gang.couple(now_s)
        self.share()

    def share(self) -> None:
        """Compute the CPU shares again."""
        trainings = list(self.training)
        demands, limits = self._wanted(trainings)
        shares = share_out(self._gives_m, demands, limits, yields=self._caps_yield)
        self._slower = slowdown(self._contention, self._gives_m, demands, limits)
        for training, demand, share in zip(trainings, demands, shares, strict=True):
            self._give(training, demand, share)
            training.own_pace, training.own_share_m = training.pace, training.share_m
        couple_all([training.gang for training in trainings if training.gang is not None], self._timeline.now_s())
        self.settle()

    def settle(self) -> None:
        """Give what members of gangs leave, because they wait for others, to those that train alone."""
        gang = [training for training in self.training if training.gang is not None]
        if gang and len(gang) < len(self.training):
            alone = [training for training in self.training if training.gang is None]
            left_m = sum(training.own_share_m - training.share_m for training in gang)
            shares = [training.own_share_m for training in alone]
            demands, limits = self._wanted(alone)
            if left_m > LEFT_M:
                shares = share_out(sum(shares) + left_m, demands, limits, yields=self._caps_yield)
            for training, demand, share in zip(alone, demands, shares, strict=True):
                self._give(training, demand, share)
        self.retime()

    def _wanted(self, trainings: Sequence[CpuConsumer]) -> tuple[list[int], list[int | None]]:
        """The CPU that each replica can use, and its limit."""
        demands = [self._gives_m if one.model.demand_m is None else one.model.demand_m for one in trainings]
        return demands, [one.limit_m for one in trainings]

    def _give(self, training: CpuConsumer, demand: int, share: float) -> None:
        """From now on it has this share."""
        training.advance(self._timeline.now_s())
        training.share_m = share if demand else float(training.model.idle_m)
        training.pace = self.speed / training.model.step_s * (share / demand / self._slower if demand else 1.0)

    def retime(self) -> None:
        """Set the timer for the training that is due first."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_s = [one.since_s + (one.target() - one.done) / one.pace for one in self.training if one.pace > 0.0]
        if len(due_s) < len(self.training):
            due_s += [one.since_s for one in self.training if _pauses_after_step(one)]
        if due_s:
            self._timer = self._timeline.call_at(min(due_s), self._reach)

    def _reach(self) -> None:
        """Call ``reach`` of the trainings whose target step is completed."""
        self._timer = None
        now_s = self._timeline.now_s()
        for training in list(self.training):
            if training not in self.training:
                continue
            target = training.target()
            if training.pace > 0.0:
                is_due = training.since_s + (target - training.done) / training.pace <= now_s + DUE_TOLERANCE_S
            else:
                is_due = _pauses_after_step(training)
            if is_due:
                training.advance(now_s)
                training.reach(int(target))
        self.retime()

    def used_m(self) -> int:
        """CPU in use now, in millicores."""
        return round(sum(training.share_m for training in self.training))


def _pauses_after_step(training: CpuConsumer) -> bool:
    """Whether it waits for its gang after a step that it has completed and not reported: another member was first."""
    return training.pace <= 0.0 and training.target() - training.done <= _STEP_TOLERANCE
