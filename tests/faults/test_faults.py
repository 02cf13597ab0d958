"""The world of faults: schedules that once broke something, a few that never did, and that a seed is a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.draw import drawn
from tests.faults.run import guarded
from tests.faults.schedule import parsed

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
ROOT = Path(__file__).parents[2]
SEEDS = int(os.environ.get("STEEPEST_FAULT_SEEDS", "50"))
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


@pytest.mark.parametrize("at_steps", [False, True])
def test_a_schedule_is_its_text(*, at_steps: bool) -> None:
    """A schedule that is written down and read again is the same."""
    schedule = drawn(3, at_steps=at_steps)

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
