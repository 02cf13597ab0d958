"""A node in virtual time: it shares its CPU among what trains on it, and says when each is due.

It owns the pace of trainings. One timer a node, for whatever is due first: a change costs work in what trains on this node
and in nothing else.
"""

from __future__ import annotations

from typing import Protocol

from steepest.cluster.simulated.model import Model
from steepest.cluster.simulated.shares import share_out, slowdown
from steepest.cluster.simulated.timeline import Timeline, Timer
from steepest.events.common import Resources

EARLY_S = 1e-9
"""What is due within this has come: sums of floats miss a moment by less."""


class Trains(Protocol):
    """What shares a node's CPU: a training, as far as its node knows it.

    Attributes:
        done: Steps done at ``since_s``.
        pace: Steps a second since then.
        share_m: CPU that it gets, in millicores.
        limit_m: Its limit in millicores; None: none.
    """

    model: Model
    done: float
    since_s: float
    pace: float
    share_m: float
    limit_m: int | None

    def advance(self, now_s: float) -> None:
        """Count the steps done up to now."""

    def target(self) -> float:
        """The number of steps at which it wants to be called."""

    def reach(self, step: int) -> None:
        """It has come there."""


class SimulatedNode:
    """One node.

    Attributes:
        lost: It starts nothing.
        training: What trains on it now: not what launches, saves or waits.
    """

    def __init__(
        self,
        name: str,
        capacity: Resources,
        timeline: Timeline,
        *,
        speed: float = 1.0,
        storage_mib_s: float = 500.0,
        caps_yield: bool = False,
        gives_m: int | None = None,
        contention: float = 0.0,
    ) -> None:
        """A node.

        Args:
            name: Its name.
            capacity: What it has.
            timeline: Time.
            speed: Steps go so many times as fast as on the node that models were measured on.
            storage_mib_s: Rate at which checkpoints are written and read.
            gives_m: CPU that it really gives, in millicores: a machine that others use too gives less than its capacity.
            caps_yield: Whether idle CPU goes also to those whose caps hold them back.
            contention: By how much more demand than CPU slows every training on it: see :func:`slowdown`.
        """
        self.name = name
        self.capacity = capacity
        self.speed = speed
        self.storage_mib_s = storage_mib_s
        self.lost = False
        self.training: dict[Trains, None] = {}
        self._gives_m = capacity.cpu_m if gives_m is None else gives_m
        self._caps_yield = caps_yield
        self._contention = contention
        self._timeline = timeline
        self._timer: Timer | None = None

    def enter(self, training: Trains) -> None:
        """It trains from now on."""
        training.since_s = self._timeline.now_s()
        self.training[training] = None
        self.share()

    def leave(self, training: Trains) -> None:
        """It trains no more; does nothing where it does not train."""
        if training not in self.training:
            return
        training.advance(self._timeline.now_s())
        del self.training[training]
        training.pace = training.share_m = 0.0
        self.share()

    def share(self) -> None:
        """Share out the CPU anew."""
        now_s = self._timeline.now_s()
        trainings = list(self.training)
        capacity = self._gives_m
        demands = [capacity if one.model.demand_m is None else one.model.demand_m for one in trainings]
        limits = [one.limit_m for one in trainings]
        shares = share_out(capacity, demands, limits, yields=self._caps_yield)
        slower = slowdown(self._contention, capacity, demands, limits)
        for training, demand, share in zip(trainings, demands, shares, strict=True):
            training.advance(now_s)
            training.share_m = share if demand else float(training.model.idle_m)
            training.pace = self.speed / training.model.step_s * (share / demand / slower if demand else 1.0)
        self.retime()

    def retime(self) -> None:
        """Set the timer for what is due first."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_s = [one.since_s + (one.target() - one.done) / one.pace for one in self.training if one.pace > 0.0]
        if due_s:
            self._timer = self._timeline.call_at(min(due_s), self._reach)

    def _reach(self) -> None:
        """Let those go on whose step is completed."""
        self._timer = None
        now_s = self._timeline.now_s()
        for training in list(self.training):
            if training not in self.training or training.pace <= 0.0:
                continue
            target = training.target()
            if training.since_s + (target - training.done) / training.pace <= now_s + EARLY_S:
                training.advance(now_s)
                training.reach(int(target))
        self.retime()

    def used_m(self) -> int:
        """CPU in use now, in millicores."""
        return round(sum(training.share_m for training in self.training))
