"""Unmodified PyTorch trainings that are moved one to five times at random moments, on nodes of any kind."""

from __future__ import annotations

import functools
import random
import subprocess
from pathlib import Path

import pytest
from tests.harness.kept_job import ENV, KeptJob

ROOT = Path(__file__).parents[2]
TRAINING = ROOT / "tests" / "frameworks" / "unchanged_training.py"
PYTHON = ROOT / ".venv-frameworks" / "bin" / "python"
PACKAGES = ROOT / ".venv-frameworks" / "lib" / "python3.11" / "site-packages"
STYLES = ("workers", "tensors", "new-workers")
"""Of the training, in turn."""

PATIENCE_S = 300.0
"""PyTorch takes seconds to begin, and gigabytes to read, on a machine that does something else."""


def each_training(metafunc: pytest.Metafunc, usual: int, first: pytest.MarkDecorator) -> None:
    """A test for each style and seed. ``usual``: how many without ``--trainings``; ``first``: the mark of the first one."""
    count = metafunc.config.getoption("trainings") or usual
    if "style" in metafunc.fixturenames:
        each = [pytest.param(STYLES[seed % 3], seed, marks=[first] if seed == 0 else []) for seed in range(count)]
        metafunc.parametrize(("style", "seed"), each)


def packages() -> Path:
    """The folder that has PyTorch; the test is skipped where there is none."""
    if not PACKAGES.exists():
        pytest.skip(f"there is no {PACKAGES}; get it with: make test-frameworks")
    return PACKAGES.resolve()


def moments(seed: int, latest: int) -> list[int]:
    """After how many lines a training is moved."""
    rng = random.Random(seed)
    return sorted(rng.sample(range(1, latest), rng.randint(1, 5)))


@functools.cache
def unmoved(style: str, steps: int) -> str:
    """The output of such a training on this machine if it is not moved."""
    command = [str(PYTHON), str(TRAINING), f"--style={style}", f"--steps={steps}"]
    return subprocess.run(command, env=ENV, capture_output=True, text=True, check=True).stdout


async def move_at(job: KeptJob, lines: list[int]) -> None:
    """Move a job once at each of these numbers of printed lines; then wait until it has finished."""
    job.patience_s = PATIENCE_S
    for each in lines:
        await job.printed(each)
        await job.move()
    assert await job.end() == 0, job.output
    assert job.incarnation == len(lines) + 1
