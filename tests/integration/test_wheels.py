"""The packages, built and installed as any other's: a system runs from an environment that never saw the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("libs/steepest-sdk", "libs/steepest", "services")
PRINTS = "for step in range(5): print(f'step {step} loss {1 / (step + 1)}')"


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_system_runs_from_wheels_alone(tmp_path: Path) -> None:
    """`up`, `submit` and `jobs` work outside of the checkout; a command of the lab says what it needs; sdists build too."""
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        pytest.skip("there is no uv in this environment; get it with: make dev")
    wheels, environment, elsewhere = tmp_path / "wheels", tmp_path / "environment", tmp_path / "elsewhere"
    elsewhere.mkdir()
    for package in (*PACKAGES, "libs/steepest-lab"):
        done(uv, "build", "--quiet", "--out-dir", wheels, ROOT / package)
    done(uv, "venv", "--quiet", "--python", sys.executable, environment)
    install = (uv, "pip", "install", "--quiet", "--python", environment / "bin" / "python", "--no-deps")
    done(*install, "--require-hashes", "-r", ROOT / "requirements" / "runtime.txt")
    done(*install, *(each for each in wheels.glob("*.whl") if "lab" not in each.name))

    steepest = environment / "bin" / "steepest"
    system = subprocess.Popen(
        [steepest, "up", "--interval", "1s"], cwd=elsewhere, env=plain(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert system.stdout is not None
        assert any("caught up" in line for line in iter(system.stdout.readline, ""))
        done(
            steepest,
            "submit",
            "--wait",
            "--name",
            "one",
            "--",
            environment / "bin" / "python",
            "-c",
            PRINTS,
            cwd=elsewhere,
        )
        (job,) = json.loads(done(steepest, "jobs", "--all", "--json", cwd=elsewhere))
        lab = subprocess.run(
            [steepest, "simulate"], cwd=elsewhere, env=plain(), capture_output=True, text=True, check=False
        )
    finally:
        system.terminate()
        system.communicate()

    assert system.returncode == 0
    assert (job["outcome"], job["step"]) == ("finished", 4)
    assert (lab.returncode, "install libs/steepest-lab" in lab.stderr) == (2, True)
    assert len([*wheels.glob("*.tar.gz")]) == len(PACKAGES) + 1


def done(*command: str | Path, cwd: Path = ROOT) -> str:
    """The output of a command, which must succeed."""
    ran = subprocess.run([*map(str, command)], cwd=cwd, env=plain(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def plain() -> dict[str, str]:
    """This environment without its own variables of Steepest and of Python."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("STEEPEST_", "PYTHON", "VIRTUAL"))
    }
