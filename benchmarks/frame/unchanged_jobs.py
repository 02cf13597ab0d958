"""Jobs of ``real_pairs`` that have keepers: its trainings, or trainings in PyTorch, of which none saves anything itself."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
from benchmarks.frame.bench import doing, skip
from tests.harness.kept_job import ENV, missing
from tests.harness.moved_trainings import STYLES, TRAINING

from steepest.events.common import CheckpointMode
from steepest_lab.demo.workload import Arrival, DemoWorkload
from steepest_lab.reproduce.testbed.jobs import Cost

KINDS = ("numpy", "pytorch")
RATES = (1e-3, 3e-6, 3e-4, 1e-5)
"""Of the trainings in PyTorch, in turn. With a high one a training converges soon."""

STEP = ("--width=8192",)
FEW_STEPS, MORE_STEPS = 40, 240


def with_keepers(given: DemoWorkload, kind: str) -> DemoWorkload:
    """The jobs with keepers; those in PyTorch take as much CPU time as the ones whose places they take.

    The benchmark ends where no job can have a keeper, or PyTorch is missing.
    """
    with tempfile.TemporaryDirectory() as folder:
        if why := missing(Path(folder)):
            skip(why)
    arrivals = given.arrivals
    if kind == "pytorch":
        costs = [_cost(style) for style in STYLES[: len(arrivals)]]
        arrivals = tuple(_in_pytorch(one, place, costs[place % len(STYLES)]) for place, one in enumerate(arrivals))
    kept = (
        msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, checkpoint_mode=CheckpointMode.SYSTEM))
        for one in arrivals
    )
    return msgspec.structs.replace(given, arrivals=tuple(kept))


def _in_pytorch(one: Arrival, place: int, cost: Cost) -> Arrival:
    style = STYLES[place % len(STYLES)]
    steps = max(1, round((one.core_s - cost.start_s) / cost.step_s))
    command = (*_command(style, steps), f"--rate={RATES[place % len(RATES)]}")
    spec = msgspec.structs.replace(one.spec, command=command, model=f"pytorch-{style}")
    return msgspec.structs.replace(one, kind=style, spec=spec)


def _command(style: str, steps: int) -> tuple[str, ...]:
    return (sys.executable, str(TRAINING), f"--style={style}", f"--steps={steps}", *STEP)


def _cost(style: str) -> Cost:
    """CPU time of a training's start and of each step, workers included."""
    doing(f"measuring the cost of PyTorch with {style}")
    few, more = (_cpu_s(_command(style, steps)) for steps in (FEW_STEPS, MORE_STEPS))
    step_s = max(1e-6, (more - few) / (MORE_STEPS - FEW_STEPS))
    return Cost(max(0.0, few - FEW_STEPS * step_s), step_s)


def _cpu_s(command: tuple[str, ...]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        skip(f"PyTorch does not run ({done.stderr[-200:].strip()}): use the Python of `make test-frameworks`")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
