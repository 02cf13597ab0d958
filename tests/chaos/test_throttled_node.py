"""Nodes that are throttled behind Steepest's back, on a machine where nothing else runs."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from tests.harness.kernel_group import KernelGroup
from tests.harness.processes import with_command_lines
from tests.harness.system.running_system import RunningSystem
from tests.integration.test_watching import PATIENCE_S

from steepest.cluster.local.groups import cap
from steepest.events import cluster as c
from steepest.events.growth import FindingKind
from steepest.events.received import Received

BUSY = """
import sys, time, steepest_sdk
run = steepest_sdk.start(save=lambda to: (to / "nothing").touch(), load=lambda saved: None)
run.announce(steps=1000000)
for step in range(run.step + 1, 1000001):
    until = time.thread_time() + 0.004
    while time.thread_time() < until:
        pass
    time.sleep(float(sys.argv[1]))
    run.report(step, loss=1 / step)
"""

NODE_M, THROTTLED_M = 100, 60
PACES, CALM = 30, 0.15
"""The newest reports of steps that are a job's past, and the noise among them in which the bounds of the study hold."""

OPTIONS = ("--policy", "spread", "--interval", "6s", "--drain-slow")
"""Each report of a node's use is a pace: an interval of six seconds makes one a second."""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_node_that_is_throttled_to_three_fifths_is_found_closed_and_left(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """By the quota of its control group, of which Steepest knows nothing. A node beside it and its jobs are untouched.

    ``--fault-jobs 10`` throttles ten nodes.
    """
    throttled = [f"n{number}" for number in range(pytestconfig.getoption("fault_jobs"))]
    nodes = [*throttled, "well"]
    sizes = [option for node in nodes for option in ("--node", f"{node}={NODE_M / 1000}:1Gi")]
    running = RunningSystem(tmp_path / "state", *OPTIONS, *sizes, "--node", f"room={NODE_M * len(nodes) / 1000}:9Gi")
    running.start()
    try:
        for node in (*nodes, "room"):
            running.await_event(joined(node))
        room = ("--state", str(running.state), "room")
        assert running.call("nodes", "drain", *room).returncode == 0
        jobs = [f"job-{number}" for number in range(2 * len(nodes))]
        for job in jobs:
            running.submit(job, sys.executable, "-c", BUSY, "0", options=("--cpu", "0.04"))
        where = {job: running.await_event(placed(job)).node for job in jobs}
        assert sorted(where.values()) == sorted([*nodes, *nodes]), where
        assert running.call("nodes", "undrain", *room).returncode == 0
        before = running.look_for(calm_paces(*where), since=0, patience_s=PATIENCE_S)
        if before is None:
            pytest.skip("others use this machine's CPU: the jobs' steps are too noisy")
        busy = [KernelGroup(process.pid).folder for process, line in with_command_lines() if line[-2:] == [BUSY, "0"]]
        groups = {folder.parent.name.removeprefix("node-"): folder.parent for folder in busy}
        if set(groups) != set(nodes):
            pytest.skip("no control groups: this user may not create groups with CPU control")
        for node in throttled:
            cap(groups[node], THROTTLED_M, NODE_M)
        ill = {job: node for job, node in where.items() if node != "well"}
        moved = running.look_for(all_moved(ill), since=before, patience_s=300)
        records = [one for one in running.events() if one.offset > before]
        report(records, ill)
        assert moved is not None
        assert sorted(closed_nodes(records)) == sorted(throttled)
        assert [one.event for one in records if touches(one.event, [job for job in where if job not in ill])] == []
        assert running.breaches() == []
    finally:
        running.end()


def closed_nodes(records: Sequence[Received[c.ClusterEvent]]) -> list[str]:
    """The nodes that were closed, in order."""
    return [one.event.node for one in records if isinstance(one.event, c.NodeDrainRequested) and one.event.drained]


def touches(event: c.ClusterEvent, healthy: Sequence[str]) -> bool:
    """Whether something is done about one of these jobs, or said of it other than that it is slower for a moment."""
    is_said = isinstance(event, c.FindingOpened) and event.kind is not FindingKind.SLOWED
    is_done = isinstance(event, c.MigrationPlanned | c.TransitionPlanned | c.ReactionPlanned | c.JobEnded)
    return (is_said or is_done) and getattr(event, "job", "") in healthy


def report(records: list[Received[c.ClusterEvent]], ill: dict[str, str]) -> None:
    """Say how soon each node was found and closed, and its jobs went on elsewhere."""
    said: dict[tuple[str, str], list[str]] = {}
    for one in records:
        event, after = one.event, f"{(one.at_ms - records[0].at_ms) / 1_000:.0f}"
        match event:
            case c.FindingOpened(kind=FindingKind.SLOWED) if event.job in ill:
                blames = "node" if "so do those of most other jobs" in event.why else "other"
                said.setdefault((ill[event.job], f"found ({blames})"), []).append(after)
            case c.FindingOpened(kind=FindingKind.SLOWED):
                said.setdefault((event.job, "healthy, and said to be slower"), []).append(after)
            case c.NodeDrainRequested(drained=True):
                said.setdefault((event.node, "closed"), []).append(after)
            case c.MigrationFinished() if event.job in ill:
                said.setdefault((ill[event.job], "moved"), []).append(after)
    for (node, what), when in sorted(said.items()):
        print(node, what, "after", ", ".join(when), "s")  # noqa: T201


def joined(node: str) -> Callable[[Received[c.ClusterEvent]], c.NodeJoined | None]:
    """Finds the record by which a node is there."""
    return lambda found: found.event if isinstance(found.event, c.NodeJoined) and found.event.node == node else None


def placed(job: str) -> Callable[[Received[c.ClusterEvent]], c.JobPlaced | None]:
    """Finds the start of a job."""
    return lambda found: found.event if isinstance(found.event, c.JobPlaced) and found.event.job == job else None


def all_moved(jobs: Iterable[str]) -> Callable[[Received[c.ClusterEvent]], bool | None]:
    """Finds the record after which all of them have moved."""
    left = dict.fromkeys(jobs)

    def look(found: Received[c.ClusterEvent]) -> bool | None:
        if isinstance(found.event, c.MigrationFinished):
            left.pop(found.event.job, None)
        return not left or None

    return look


def calm_paces(*jobs: str) -> Callable[[Received[c.ClusterEvent]], int | None]:
    """Finds the offset from which on each of these jobs has made its newest steps equally fast."""
    made: dict[str, list[tuple[int, int]]] = {job: [] for job in jobs}

    def look(found: Received[c.ClusterEvent]) -> int | None:
        for one in found.event.progress if isinstance(found.event, c.NodeUsage) else ():
            if one.step:
                made[one.job] = [*made[one.job][-PACES:], (found.at_ms, one.step)]
        return found.offset if all(len(each) > PACES and noise(each) < CALM for each in made.values()) else None

    return look


def noise(made: list[tuple[int, int]]) -> float:
    """The robust spread of the logarithms of the times of a step."""
    paces = sorted(math.log(max(b[0] - a[0], 1) / max(b[1] - a[1], 1)) for a, b in pairwise(made))
    return (paces[3 * len(paces) // 4] - paces[len(paces) // 4]) / 1.35
