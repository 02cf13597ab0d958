"""The examples as jobs of a real embedded system: each is watched and finishes, also one that is moved."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.frameworks.conftest import EXAMPLES, ONE_THREAD, PATIENCE_S, Supervisor, needs_frameworks
from tests.harness.system.running_system import RunningSystem

from steepest.app.settings.reading import read_settings
from steepest.cli.pool.user_requests import append, asking
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.received import Received

pytestmark = [needs_frameworks, pytest.mark.timeout(900)]

SIZES = {"pytorch": "20", "lightning": "40", "huggingface": "8", "keras": "60"}
"""Epochs of each, some five seconds of a core."""

# With a high α a job counts as converged soon after its first losses, and all of them begin on one node; so the other
# one, which stands idle, is the better place (Algorithm 4).
OPTIONS = (
    "--interval",
    "500ms",
    "--heartbeat",
    "250ms",
    "--policy",
    "specon",
    "--alpha",
    "0.9",
    "--node",
    "first=1.2",
    "--node",
    "second=1",
)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[RunningSystem]:
    """A system of two nodes."""
    running = RunningSystem(tmp_path / "state", *OPTIONS, env=ONE_THREAD)
    running.start()
    yield running
    running.end()


@pytest.mark.end_to_end
def test_examples_finish_and_a_moved_one_ends_where_it_would_have(
    system: RunningSystem, supervisor: Supervisor, tmp_path: Path
) -> None:
    """All four finish with their losses read; at least one is moved without losing a step, and ends on the same bits."""
    for name, epochs in SIZES.items():
        submit(system.state, name, (sys.executable, str(EXAMPLES / f"{name}_digits.py"), "--epochs", epochs), tmp_path)

    for name in SIZES:
        ended = system.look_for(lambda found, name=name: end_of(found, name), 0, PATIENCE_S)  # type: ignore[misc]
        assert ended is c.Outcome.FINISHED, system.call("explain", name).stdout + output_of(system.state, name)

    events = [found.event for found in system.events()]
    assert {event.job for event in events if isinstance(event, c.GrowthMeasured)} == set(SIZES)
    moves = [event for event in events if isinstance(event, c.MigrationFinished)]
    assert moves
    assert [move.steps_lost for move in moves] == [0] * len(moves)
    moved = moves[0].job
    restored = [event.restore for event in events if isinstance(event, c.JobPlaced) and event.job == moved][1:]
    assert all(checkpoint is not None and checkpoint.step > 0 for checkpoint in restored)
    unmoved = supervisor.start_alone(EXAMPLES / f"{moved}_digits.py", "--epochs", SIZES[moved])
    assert unmoved.wait() == 0
    assert output_of(system.state, moved).splitlines()[-1] == f"final loss {unmoved.final_loss()}"
    assert system.breaches() == []


def submit(state: Path, job: str, command: tuple[str, ...], folder: Path) -> None:
    """What ``steepest submit`` does, with the first node prescribed."""
    spec = c.JobSpec(command=command, working_dir=str(folder), requests=Resources(cpu_m=100), first_node="first")

    async def ask() -> None:
        async with asking(read_settings({"state_dir": state})) as (log, pool):
            await append(log, pool, c.JobSubmitted(job=job, request=f"submit-{job}", spec=spec))

    asyncio.run(ask())


def end_of(found: Received[c.ClusterEvent], job: str) -> c.Outcome | None:
    """How a job ended, or None while it has not ended."""
    return found.event.outcome if isinstance(found.event, c.JobEnded) and found.event.job == job else None


def output_of(state: Path, job: str) -> str:
    """What the last incarnation of a job has printed; where the job is over, that is kept in ``ended/<job>.<n>``."""
    names = (job, f"{job}.1")
    outputs = [
        path for path in state.rglob("output.log") if any(part in names for part in path.relative_to(state).parts)
    ]
    return max(outputs, key=lambda path: path.stat().st_mtime_ns).read_text()
