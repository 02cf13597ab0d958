"""What the device planner remembers between records."""

from __future__ import annotations

import msgspec

from steepest.policies.pending import Pending
from steepest.policies.pickyman.overheads import Overheads
from steepest.policies.steepest.devices.fair_devices import FairDevices
from steepest.policies.steepest.learning_history import LearningHistory, LossCourse


class DeviceJob(msgspec.Struct):
    """A job with devices. Times are seconds of counted time.

    Attributes:
        kind: The pool of devices that it belongs to.
        devices: That it asks for.
        step_s: Device-seconds of a step, as measured last; None: they were not.
        slow_s: The same in the slowest tenth of the last minutes.
        left_s: What it still needed when that was known last, alone with its devices.
        known_s: When that was.
        counted: Whether that follows from its own steps; it stays while the next incarnation says nothing yet.
        trains: The incarnation that was seen to make steps.
        losses: Some of its losses.
        tier: How often its promise was put off.
        due_s: When it is due, as the log says; None: nothing was promised.
    """

    kind: str
    devices: float
    step_s: float | None = None
    slow_s: float | None = None
    left_s: float | None = None
    known_s: float = 0.0
    counted: bool = False
    trains: int = 0
    losses: LossCourse = msgspec.field(default_factory=LossCourse)
    tier: int = 0
    due_s: float | None = None


class DevicePlannerState(Pending):
    """The state of the device planner; empty while it is off.

    Attributes:
        on: Whether the policy is on.
        known: The jobs with devices that are not over.
        fair: The copies of each pool of devices under fair sharing.
        learned: Device-seconds of whole jobs, and when they had learned most, by model.
        steps: Device-seconds of a step, by model, and by model and devices.
        overheads: What stops and starts took.
        rejected: The jobs whose rejection is not read back.
        changed: Whether anything happened since the last decision that one may follow from.
        decide_s: When the next decision is due if nothing happens.
        tick_ms: The record time of the newest tick.
    """

    on: bool = False
    known: dict[str, DeviceJob] = msgspec.field(default_factory=dict)
    fair: dict[str, FairDevices] = msgspec.field(default_factory=dict)
    learned: LearningHistory = msgspec.field(default_factory=LearningHistory)
    steps: LearningHistory = msgspec.field(default_factory=LearningHistory)
    overheads: Overheads = msgspec.field(default_factory=Overheads)
    rejected: dict[str, None] = msgspec.field(default_factory=dict)
    changed: bool = False
    decide_s: float = 0.0
    tick_ms: int = 0
