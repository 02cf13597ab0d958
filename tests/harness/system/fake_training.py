"""The program that runs on nodes in memory: ``contract_job`` with its flags, as a simulated model."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable

from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import RefusedError
from steepest.events.common import CheckpointMode
from steepest_lab.simulated.model import Delay, Model

PROGRAM = "train"
"""The only program that there is."""


@functools.cache
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--mode", type=CheckpointMode, default=CheckpointMode.ON_REQUEST)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--step-s", type=float, default=0.01)
    parser.add_argument("--save-s", type=float, default=0.0)
    parser.add_argument("--burn", action="store_true", help="compute all the time, instead of waiting")
    parser.add_argument("--flat-after", type=int, default=0, help="the step from which on the loss stays; 0: no loss")
    parser.add_argument("--crash-at", type=int, default=0)
    parser.add_argument("--crash-replica", type=int, help="only the replica with this index crashes; else all do")
    parser.add_argument("--fail-start", type=int, help="the replica with this index ends with status 7 as it starts")
    for name in ("--meet", "--ignore-term", "--silent", "--spoil"):
        parser.add_argument(name, action="store_true")
    return parser


@functools.cache
def _parsed(arguments: tuple[str, ...]) -> argparse.Namespace:
    return _parser().parse_args(arguments)


def model_of(replica: ReplicaId, spec: ReplicaSpec) -> Model:
    """What a command does.

    Raises:
        RefusedError: ``no-such-program``.
    """
    name, *arguments = spec.command
    if name != PROGRAM:
        raise RefusedError(f"there is no program {name!r}", code="no-such-program")
    given = _parsed(tuple(arguments))
    return Model(
        mode=given.mode,
        steps=given.steps,
        step_s=given.step_s,
        demand_m=None if given.burn else 0,
        loss=_falling(given.flat_after) if given.flat_after else None,
        delay_s=lambda delay, _incarnation: given.save_s if delay is Delay.SAVE else 0.0,
        exit_status=given.exit,
        crash_at=given.crash_at if given.crash_replica in (None, replica.index) else 0,
        launch_status=7 if given.fail_start == replica.index else None,
        lockstep=given.meet,
        ignore_term=given.ignore_term,
        silent=given.silent,
        spoil=given.spoil,
    )


def _falling(flat_after: int) -> Callable[[int], float]:
    """A loss that falls from 1 to 0.1 along a line, and then stays."""
    return lambda step: 1.0 - 0.9 * min(step, flat_after) / flat_after
