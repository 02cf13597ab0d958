"""The model of a simulated training: how long its steps take, what it reports, how it reacts to requests."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from steepest.events.common import CheckpointMode


class Delay(enum.Enum):
    """Delays apart from the steps."""

    LAUNCH = "launch"  # from the start of the process to its first step
    RESTORE = "restore"  # added to LAUNCH when it resumes
    SAVE = "save"  # until a checkpoint is on the volume


def no_delay(_delay: Delay, _incarnation: int) -> float:
    """No delays: only steps take time."""
    return 0.0


Says: TypeAlias = Literal["steps", "epochs", "nothing"]


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of one training.

    Attributes:
        steps: Steps of the whole training; None: it never ends.
        says: What its log names: steps, only epochs, one a step, or nothing.
        total: The steps that the process states as those of the whole training; None: it states none.
        step_s: Seconds per step when it runs alone on a node of speed 1.
        demand_m: CPU in millicores that its steps use at that pace; with less CPU they take longer. 0: they compute on a
            device that is not shared, or only wait. None: all of the node's CPU.
        idle_m: CPU in millicores that is reported for a training whose ``demand_m`` is 0.
        report_every: Steps between two reports; the last step is always reported.
        loss: Returns the loss after a step; None: reports have no loss.
        delay_s: Returns the seconds of a delay of an incarnation.
        checkpoint_mib: Size of a checkpoint in MiB; a save or restore takes the time for it in addition to the delays.
        exit_status: The status after the last step.
        crash_at: The step at which the first incarnation fails with status 1; 0: never.
        launch_status: The status with which it ends instead of its first step; None: it trains.
        lockstep: In a gang it does each step together with the others, and fails when one of them does.
        exchanged_mib: In a gang, what each worker exchanges with the others after a step, in MiB.
        serves: In a gang, it serves the parameters to the others.
        may_leave: In a gang, the others go on without it where it ends.
        ignore_term: It ignores SIGTERM.
        silent: It never answers a request.
        spoil: Its checkpoints fail verification.
    """

    mode: CheckpointMode = CheckpointMode.ON_REQUEST
    steps: int | None = None
    says: Says = "steps"
    total: int | None = None
    step_s: float = 0.01
    demand_m: int | None = 0
    idle_m: int = 10
    report_every: int = 1
    loss: Callable[[int], float | None] | None = None
    delay_s: Callable[[Delay, int], float] = no_delay
    checkpoint_mib: float = 0.0
    exit_status: int = 0
    crash_at: int = 0
    launch_status: int | None = None
    lockstep: bool = True
    exchanged_mib: float = 0.0
    serves: bool = False
    may_leave: bool = False
    ignore_term: bool = False
    silent: bool = False
    spoil: bool = False
