"""The demo of DRAGON from outside, and its gangs under the real scheduler: they queue, shrink, grow and finish."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import msgspec
import pytest
from tests.harness.system.running_system import STEEPEST

from steepest.cli.live.audience import NoAudience
from steepest.events import cluster as c
from steepest.invariants import Status, check
from steepest_lab.demo.gangs.workload import gang_parameters, gang_workload
from steepest_lab.demo.play import Play


@pytest.mark.long
def test_the_demo_of_dragon_prints_what_it_did(tmp_path: Path) -> None:
    """Gangs run to their ends; the object says how often they were scaled, and what the run says of locality."""
    state = tmp_path / "state"
    command = [
        *STEEPEST,
        "demo",
        "--policy",
        "dragon",
        "--jobs",
        "3",
        "--length",
        "0.05",
        "--json",
        "--state",
        str(state),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    figures = json.loads(done.stdout)

    assert (figures["jobs"], figures["finished"], figures["gangs"], figures["steps_lost"]) == (3, 3, 3, 0)
    links = figures["scaling"]["link_mbit"]
    assert ("proves nothing of locality" in figures["scaling"]["locality"]) is (links is None)
    replayed = subprocess.run(
        [*STEEPEST, "replay", str(state)], capture_output=True, text=True, check=False, timeout=200
    )
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_the_demo_of_dragon_compares_nothing(tmp_path: Path) -> None:
    """What it does not do is refused before anything is made."""
    for option in ("--compare", "--cluster=docker"):
        command = [*STEEPEST, "demo", "--policy", "dragon", option, "--state", str(tmp_path / "state")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
        assert done.returncode == 2
        assert "leave --compare and --cluster out" in done.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_gangs_shrink_for_one_that_starves_and_grow_again(tmp_path: Path) -> None:
    """Five gangs on nodes for two: all start whole, some give up workers and get them back, and all finish."""
    given = gang_workload(1, 2, jobs=5, length=0.15)
    nodes = tuple(
        msgspec.structs.replace(node, capacity=msgspec.structs.replace(node.capacity, cpu_m=400))
        for node in given.nodes
    )
    arrivals = tuple(msgspec.structs.replace(arrival, at_s=0.2 * place) for place, arrival in enumerate(given.arrivals))
    given = msgspec.structs.replace(given, nodes=nodes, arrivals=arrivals)
    parameters = gang_parameters("dragon-fixed")
    faster = msgspec.structs.replace(parameters.dragon, starving_ms=1_000, idle_ms=2_000, period_ms=500)
    play = Play(tmp_path / "state", given, msgspec.structs.replace(parameters, dragon=faster))
    story = asyncio.run(play.run(NoAudience()))
    events = asyncio.run(play.recorded())

    assert story.ended(c.Outcome.FINISHED) == 5
    assert story.scalings.downs > 0
    assert story.scalings.ups > 0
    assert story.steps_lost == 0
    assert [one for one in check(events) if one.status is Status.BROKEN] == []
