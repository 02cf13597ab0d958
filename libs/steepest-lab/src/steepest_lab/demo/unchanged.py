"""The demo's workload of trainings that know nothing of Steepest, and the proof that moves changed nothing in them."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from steepest.app.settings.tree import Settings
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.keepers import find_programs, why_unable
from steepest.cluster.local.groups import find_groups
from steepest.cluster.port import ReplicaId
from steepest.errors import InputError
from steepest.events.cluster import JobSpec
from steepest.events.common import CheckpointMode, Resources
from steepest_lab import jobs as trainings
from steepest_lab.demo.workload import GAP_S, LENGTH_VARIES, REQUEST, Arrival, DemoWorkload, nodes

BATCHES = 12
STEP_CORE_S = 0.008
STEPS = (1_000, 700, 1_300, 850)
RATES = (0.5, 0.5, 0.5, 0.01, 0.008, 0.01, 0.012, 0.008, 0.01)
"""Of the jobs in turn: the first ones converge soon, and make room for those that still learn."""


def refuse_without_keepers() -> None:
    """Called before anything is started.

    Raises:
        InputError: ``no-keeper``: no job can be kept on this machine.
    """
    programs = find_programs()
    if not isinstance(programs, str):
        with tempfile.TemporaryDirectory() as folder:
            programs = why_unable(programs, has_groups=find_groups(Path(folder)) is not None)
    if programs:
        raise InputError(programs, code="no-keeper", hint="see `steepest doctor`")


def unchanged_workload(seed: int, cores: int, jobs: int, length: float) -> DemoWorkload:
    """The same nodes as in the demo, and trainings in NumPy that print their losses and save nothing.

    Args:
        seed: Draws the times, the lengths, and each training's own seed.
        cores: What the machine has.
        jobs: How many.
        length: Of every training, relative to the usual.
    """
    rng = random.Random(seed)  # noqa: S311 - a workload is no secret
    arrivals: list[Arrival] = []
    at_s = 0.0
    for place in range(jobs):
        varies = rng.uniform(1 - LENGTH_VARIES, 1 + LENGTH_VARIES)
        steps = max(1, round(STEPS[place % len(STEPS)] * length * varies))
        command = _command(steps, RATES[place % len(RATES)], rng.randrange(1000))
        spec = JobSpec(
            command=command,
            requests=Resources(cpu_m=REQUEST.cpu_m),
            model="perceptron",
            checkpoint_mode=CheckpointMode.SYSTEM,
        )
        name = f"unchanged-{place + 1}"
        arrivals.append(Arrival(at_s=at_s, job=name, kind="unchanged", spec=spec, core_s=steps * STEP_CORE_S))
        at_s = round(at_s + rng.uniform(*GAP_S), 1)
    return DemoWorkload(nodes=nodes(cores), arrivals=tuple(arrivals))


def _command(steps: int, rate: float, seed: int) -> tuple[str, ...]:
    script = str(Path(str(trainings.__file__)).with_name("unchanged.py"))
    return (sys.executable, script, f"--steps={steps}", f"--rate={rate}", f"--seed={seed}", f"--batches={BATCHES}")


def same_as_unmoved(folder: Path, given: DemoWorkload, jobs: Iterable[str]) -> list[str]:
    """The jobs whose last line, the digest of the weights, is that of the same command in a run without moves.

    It takes as long as these trainings have CPU time.
    """
    state = AdapterFolder(Settings(state_dir=str(folder)).folder.cluster)
    commands = {arrival.job: arrival.spec.command for arrival in given.arrivals}
    env = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    same = []
    for job in jobs:
        again = subprocess.run(commands[job], env=env, capture_output=True, text=True, check=True)
        printed = [one.output for one in state.printed(ReplicaId(job)) if one.output.exists()]
        if printed and _last(printed[-1].read_text(errors="replace")) == _last(again.stdout):
            same.append(job)
    return same


def _last(output: str) -> str:
    return output.strip().rpartition("\n")[2]
