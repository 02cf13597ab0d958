"""PyTorch trainings without a line of ours are moved at random moments, and end as if nothing had moved them."""

from __future__ import annotations

import asyncio
import functools
import sys
from pathlib import Path

import pytest
from tests.frameworks.conftest import PATIENCE_S, needs_frameworks
from tests.harness.kept_gang import kept_gang
from tests.harness.kept_gang import unmoved as unmoved_gang
from tests.harness.kept_job import ENV, missing
from tests.harness.moved_trainings import TRAINING, each_training, moments, unmoved
from tests.harness.system.running_system import RunningSystem
from tests.harness.waiting import until

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.received import Received

pytestmark = [needs_frameworks, pytest.mark.timeout(0)]  # each wait has a limit, and their number is an option

STEPS, LATEST = 600, 300
DDP_STEPS = 200
NODES = ("n1", "n2")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Three trainings, or ``--trainings`` of them."""
    each_training(metafunc, usual=3, first=pytest.mark.end_to_end)


def test_a_pytorch_training_that_is_moved_ends_as_one_that_is_not(tmp_path: Path, style: str, seed: int) -> None:
    """Moved one to five times between two nodes, it prints each line of an unmoved one once, and `check` is clean."""
    if why := missing(tmp_path / "probe"):
        pytest.skip(why)
    system = RunningSystem(
        tmp_path / "state",
        *(f"--node={node}=2:8Gi" for node in NODES),
        "--policy",
        "spread",
        "--system-checkpoints",
        env=ENV,
    )
    try:
        system.start()
        system.submit("job", *command(style), options=("--cpu", "1"))
        for moment in moments(seed, LATEST):
            asyncio.run(until(functools.partial(has_printed, system, moment), within_s=PATIENCE_S))
            move(system)
        ended = system.look_for(
            lambda event: event.event if isinstance(event.event, c.JobEnded) else None, 0, PATIENCE_S
        )
        assert ended is not None
        assert ended.outcome is c.Outcome.FINISHED
        assert output(system) == unmoved(style, STEPS)
        assert system.breaches() == []
    finally:
        system.end()


def command(style: str) -> tuple[str, ...]:
    """How a training is called that takes long enough to be moved."""
    return (sys.executable, str(TRAINING), f"--style={style}", f"--steps={STEPS}", "--pause=0.1")


def output(system: RunningSystem) -> str:
    """What its incarnations have printed, one after the other."""
    folder = AdapterFolder(system.state / "cluster")
    return "".join(one.output.read_text() for one in folder.printed(ReplicaId("job")) if one.output.exists())


def has_printed(system: RunningSystem, lines: int) -> bool:
    """Whether it has printed so many lines, on all nodes together."""
    return output(system).count("\n") >= lines


def move(system: RunningSystem) -> None:
    """Move it to the other node, and wait until it trains there."""
    since = len(system.events())
    node = system.job("job")["node"]
    system.within("move", "job", "--to", NODES[NODES[0] == node])
    over = system.look_for(_moved, since, PATIENCE_S)
    assert isinstance(over, c.MigrationFinished), over


def _moved(event: Received[c.ClusterEvent]) -> c.MigrationFinished | c.MigrationFailed | None:
    return event.event if isinstance(event.event, c.MigrationFinished | c.MigrationFailed) else None


@pytest.mark.end_to_end
async def test_a_distributed_pytorch_training_is_moved_as_a_whole(tmp_path: Path) -> None:
    """DDP over gloo, with the variables that a gang gets: each rank prints what it prints unmoved, byte for byte."""
    program = str(Path(__file__).with_name("unchanged_ddp.py"))
    words = (sys.executable, program, f"--steps={DDP_STEPS}")
    async with kept_gang(tmp_path / "state", (*words, "--pause=0.02"), 2) as gang:
        for moment in (20, 60):
            await gang.printed(moment)
            await gang.move()
        assert [end.exit_status for end in await gang.ended()] == [0, 0]
        assert gang.outputs == await unmoved_gang(tmp_path, (*words, "--pause=0"), 2)
