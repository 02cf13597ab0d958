"""What a simulated training does: how long its steps take, what it reports, and how it behaves when asked."""

from __future__ import annotations

import enum
from collections.abc import Callable

import msgspec

from steepest.events.common import CheckpointMode


class Delay(enum.Enum):
    """What takes time beside the steps."""

    LAUNCH = "launch"  # from the start of the process to its first step
    RESTORE = "restore"  # more of it, when it resumes
    SAVE = "save"  # until a checkpoint is on the volume


def no_delay(_delay: Delay, _incarnation: int) -> float:
    """Nothing but steps takes time."""
    return 0.0


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One training.

    Attributes:
        steps: Steps of the whole training; None: it goes on for ever.
        step_s: Seconds a step takes alone on a node of speed 1.
        demand_m: CPU in millicores that its steps use at that pace; with less they take longer. 0: they compute on
            something that is not shared, or only wait. None: all that the node has.
        idle_m: CPU in millicores that is reported of a training whose steps use none.
        report_every: Steps between two reports; the last step is reported as well.
        loss: The loss after a step; None: reports carry none.
        delay_s: Seconds of each delay of an incarnation.
        checkpoint_mib: What a save writes and a restore reads, at the node's rate, beside the delays.
        exit_status: The status after the last step.
        crash_at: The step at which the first incarnation fails with status 1; 0 for never.
        ignore_term: It does not leave on SIGTERM.
        silent: It answers no request.
        spoil: It writes checkpoints that do not verify.
    """

    mode: CheckpointMode = CheckpointMode.ON_REQUEST
    steps: int | None = None
    step_s: float = 0.01
    demand_m: int | None = 0
    idle_m: int = 10
    report_every: int = 1
    loss: Callable[[int], float | None] | None = None
    delay_s: Callable[[Delay, int], float] = no_delay
    checkpoint_mib: float = 0.0
    exit_status: int = 0
    crash_at: int = 0
    ignore_term: bool = False
    silent: bool = False
    spoil: bool = False
