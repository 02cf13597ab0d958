"""Every benchmark runs to its end in its smallest size, so that none rots unseen between two looks at its figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from steepest.cluster.nvml import driver_of

ROOT = Path(__file__).parents[2]
BENCHMARKS = sorted(file.stem for file in (ROOT / "benchmarks").glob("*.py"))

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_its_help_names_each_size(name: str) -> None:
    """Whatever the sizes are: a case may have a per cent sign in its name."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--smallest" in done.stdout


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_smallest_size_prints_figures(name: str, tmp_path: Path) -> None:
    """It says what it does, prints a JSON object for each figure, and skips only for lack of a component, which it names."""
    folder = ("--state", str(tmp_path))
    more = {"real_pairs": folder, "real_sweeps": folder, "gpu_check": ("--declared",)}.get(name, ())
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--smallest", "--json", *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if done.stdout.startswith("skipped: "):
        pytest.skip(done.stdout.strip())
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert figures
    assert all(len(one) > 1 for one in figures)
    assert done.stderr.startswith("[")


def test_the_check_of_gpus_says_that_there_is_no_driver() -> None:
    """It ends with that line, unless this machine has one."""
    if driver_of(1) is not None:
        pytest.skip("this machine has an NVIDIA driver: python -m benchmarks.gpu_check")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stdout.startswith("skipped: there is no NVIDIA driver here")
