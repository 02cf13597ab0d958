"""FlowCon from outside: real processes on the emulated cluster, whose CPU caps are measured to work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.system.running_system import RunningSystem
from tests.integration import two_trainings

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.received import Received

TRAINING = (sys.executable, two_trainings.__file__)
STEP_S = 0.04
NODE_M = 200
CAPPED_M = 1.2 * NODE_M / 3
"""What a job that is capped at a third of the node uses less than; half of the node is more."""

BUSY_M = 0.9 * NODE_M
MEASURED, LOOKS = 8, 20


@pytest.fixture
def system(tmp_path: Path) -> Iterator[RunningSystem]:
    """One node of a fifth of a core under FlowCon."""
    running = RunningSystem(
        tmp_path / "state", "--policy", "flowcon", "--interval", "1s", "--heartbeat", "250ms", "--node", f"n1={NODE_M}m"
    )
    running.start()
    yield running
    running.end()


def applied(job: str, system: RunningSystem, since: int = 0) -> tuple[int, c.LimitsApplied]:
    """The first limit of a job that comes in force from an offset on, and where it stands."""

    def wanted(found: Received[c.ClusterEvent]) -> tuple[int, c.LimitsApplied] | None:
        event = found.event
        is_it = isinstance(event, c.LimitsApplied) and event.job == job and event.cpu_m is not None
        return (found.offset, event) if is_it and isinstance(event, c.LimitsApplied) else None

    return system.await_event(wanted, since)


def quota_m(state: Path, job: str) -> int | None:
    """The CPU quota of a job's control group, in millicores; None where it has no group."""
    folder = AdapterFolder(state / "cluster").incarnations(ReplicaId(job))[-1]
    start = folder.started()
    if start is None or not start.cgroup:
        return None
    group = Path(start.cgroup)
    if (group / "cpu.max").exists():
        quota, period = (group / "cpu.max").read_text().split()
    else:
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
    return None if quota in {"max", "-1"} else int(quota) * 1000 // int(period)


def is_capped_everywhere(system: RunningSystem) -> bool:
    """Whether the control group, the job, its node and its story have the cap; each interval may give it another limit."""
    cap_m, quota = NODE_M // 3, quota_m(system.state, "flat")
    (node,), story = system.ask("nodes"), system.ask("explain", "flat")
    says = f"runs on n1 with {cap_m}m CPU" in story["now"]
    is_set = quota is None or abs(quota - cap_m) <= 1
    return is_set and system.job("flat")["limit_m"] == node["limits"].get("flat") == cap_m and says


def used_while_capped(system: RunningSystem, since: int) -> dict[str, float]:
    """Mean measured CPU of each job over some heartbeats from an offset on, in which the flat one is capped at a third.

    A later interval may give it another limit, and take it back. The heartbeat in which a cap comes in force has both.
    """
    found: list[c.NodeUsage] = []
    heartbeats: int | None = None

    def enough(received: Received[c.ClusterEvent]) -> bool | None:
        nonlocal heartbeats
        match received.event:
            case c.LimitsApplied(job="flat", cpu_m=cpu_m):
                heartbeats = 0 if cpu_m == NODE_M // 3 else None
            case c.NodeUsage() as usage if heartbeats is not None:
                heartbeats += 1
                if heartbeats > 1:
                    found.append(usage)
        return len(found) >= MEASURED or None

    system.await_event(enough, since)
    return {job: sum(each.jobs.get(job, 0) for each in found) / len(found) for job in found[0].jobs}


def test_a_job_that_has_stopped_learning_is_capped_and_the_cap_acts(system: RunningSystem) -> None:
    """Of two jobs that compute all the time the flat one is capped at a third, and leaves the rest to the other."""
    system.submit("steep", *TRAINING, "steep", str(STEP_S))
    system.submit("flat", *TRAINING, "flat", str(STEP_S))
    at, limit = applied("flat", system)
    assert any(is_capped_everywhere(system) for _ in range(LOOKS))
    story = system.ask("explain", "flat")
    used = used_while_capped(system, at)

    assert limit.cpu_m == NODE_M // 3
    assert used["flat"] < CAPPED_M, used
    # Beside other work on the machine, neither job may get what it is allowed, so that the cap does not show.
    assert used["flat"] * 1.3 < used["steep"] or sum(used.values()) < BUSY_M, used
    assert {"LimitsPlanned", "LimitsApplied"} <= {entry["type"] for entry in story["entries"]}
    assert system.breaches() == []


def test_limits_outlive_the_system_and_end_with_flowcon(system: RunningSystem) -> None:
    """After a SIGKILL the caps still apply and are still on the log; FlowCon removes them when it is switched off."""
    system.submit("steep", *TRAINING, "steep", str(STEP_S))
    system.submit("flat", *TRAINING, "flat", str(STEP_S))
    at, _ = applied("flat", system)
    system.kill()
    assert quota_m(system.state, "flat") in {None, NODE_M // 3, NODE_M // 3 - 1}
    system.start("--policy", "spread")

    def lifted(found: Received[c.ClusterEvent]) -> bool | None:
        event = found.event
        return (isinstance(event, c.LimitsApplied) and event.job == "flat" and event.cpu_m is None) or None

    assert system.await_event(lifted, at + 1)
    assert quota_m(system.state, "flat") is None
    assert system.job("flat")["limit_m"] is None
    assert system.breaches() == []
