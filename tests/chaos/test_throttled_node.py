"""A node that is throttled behind Steepest's back, on a machine where nothing else runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from tests.harness.kernel_group import KernelGroup
from tests.harness.processes import with_command_lines
from tests.harness.system.running_system import RunningSystem
from tests.integration.test_watching import PATIENCE_S, opened

from steepest.cluster.local.groups import cap
from steepest.events import cluster as c
from steepest.events.growth import FindingKind
from steepest.events.received import Received

BUSY = """
import time
step = 0
while True:
    step += 1
    until = time.thread_time() + 0.005
    while time.thread_time() < until:
        pass
    print(f"step {step}/1000000 loss {1 / step:.6f}", flush=True)
"""

PACES, CALM = 30, 0.15
"""The newest reports of steps that are a job's past, and the noise among them in which the bounds of the study hold."""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_node_that_is_throttled_to_three_fifths_is_found_as_the_cause(tmp_path: Path) -> None:
    """By the quota of its control group, of which Steepest knows nothing: both of its jobs say that it is the node."""
    running = RunningSystem(tmp_path / "state", "--policy", "spread", "--node", "n1=0.12:1Gi", "--heartbeat", "2s")
    running.start()
    try:
        for job in ("one", "two"):
            running.submit(job, "python3", "-c", BUSY)
        before = running.look_for(calm_paces("one", "two"), since=0, patience_s=PATIENCE_S)
        if before is None:
            pytest.skip("others use this machine's CPU: the jobs' steps are too noisy")
        pid = next(process.pid for process, line in with_command_lines() if line[-1:] == [BUSY])
        group = KernelGroup(pid).folder.parent
        if group.name != "node-n1":
            pytest.skip("no control groups: this user may not create groups with CPU control")
        cap(group, 72, 120)
        for job in ("one", "two"):
            found = running.look_for(opened(FindingKind.SLOWED, job), since=before, patience_s=PATIENCE_S)
            assert found is not None
            assert "so do those of most other jobs on n1" in found.why
            assert 1.25 < found.figures["ratio"] < 2.5
        assert running.breaches() == []
    finally:
        running.end()


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
