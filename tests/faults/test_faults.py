"""The world of faults: schedules that once broke something, a few that never did, and that a seed is a run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.draw import drawn
from tests.faults.mutate import MUTANTS, Copy
from tests.faults.run import guarded
from tests.faults.schedule import parsed

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
ROOT = Path(__file__).parents[2]
SEEDS = int(os.environ.get("STEEPEST_FAULT_SEEDS", "10"))
EACH = 5


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_what_once_broke_holds(path: Path) -> None:
    """A schedule that once broke something breaks nothing now."""
    assert guarded(parsed(path.read_text())).broken == ()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, EACH))
def test_drawn_schedules_break_nothing(first: int) -> None:
    """After any schedule all jobs have ended, and nothing of what must hold is broken; `make faults` draws more."""
    broken = {seed: outcome.broken for seed in range(first, first + EACH) if (outcome := guarded(drawn(seed))).broken}

    assert broken == {}


@pytest.mark.parametrize("seed", [3, 4])
def test_a_schedule_is_its_text(seed: int) -> None:
    """A schedule that is written down and read again is the same; of two seeds one has faults that wait for their steps."""
    schedule = drawn(seed)

    assert parsed(str(schedule)) == schedule


def test_a_fault_strikes_at_the_step_that_it_names() -> None:
    """A plan about no job is made about one that it fits, and faults wait for its steps: to begin, to act, to be over."""
    outcome = guarded(
        parsed("""
            world seed=1 topology=doubled
            node n1 cpu=1000
            node n2 cpu=1000
            0.5 submit j1 steps=12
            migrate.checkpoint@1+0 call-lost migrator
            migrate.stop@1+0 kill migrator
            migrate.start.over@1+0 stop placer
            3 move saves=yes
        """)
    )

    assert outcome.broken == ()
    assert {("call-lost", "migrate.checkpoint"), ("kill", "migrate.stop"), ("stop", "migrate.start")} <= {
        *outcome.struck
    }


@pytest.mark.skipif(shutil.which("patch") is None, reason="there is no program patch: apt-get install patch")
def test_every_mutant_applies(tmp_path: Path) -> None:
    """The library has moved on under no patch, and what each makes of it is still Python."""
    copy = Copy(tmp_path)
    patches = sorted(MUTANTS.glob("*.patch"))
    for patch in patches:
        copy.patch(patch)
        for name in re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.MULTILINE):
            compile((tmp_path / name).read_text(), name, "exec")
        copy.patch(patch, back=True)

    assert len(patches) > 30


def test_a_seed_is_a_run_under_any_hash_seed() -> None:
    """The same seed makes the same records byte for byte, under any hash seed."""
    command = (
        "from tests.faults.draw import drawn; from tests.faults.world import played; print(played(drawn(2)).digest)"
    )
    made = [
        subprocess.run(
            [sys.executable, "-c", command],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]

    assert made[0] == made[1] != ""
