"""A real node whose control group is throttled: found as the cause, closed, and left by the jobs that gain."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.chaos.test_throttled_node import BUSY, OPTIONS, all_moved, calm_paces, closed_nodes, placed, report
from tests.harness.kernel_group import KernelGroup
from tests.harness.processes import with_command_lines
from tests.integration.kubernetes.moving_system import lab_system

from steepest.cluster.local.groups import cap
from steepest.events import cluster as c
from steepest.events.growth import FindingKind
from steepest.events.received import Received
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE, NODES

RESTS = "0.03"
"""Seconds that a step rests: both jobs of a node use a quarter of a core together."""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_throttled_node_is_closed_and_left(lab: KubernetesLab, kubeconfig: Path) -> None:
    """Three fifths of what its jobs use is left to a node: they go on on the other one, whose jobs nobody touches."""
    state = lab.folder.volume / f"throttled-{secrets.token_hex(4)}"
    nodes = ("node-a=1.5:4GiB", "node-b=1.5:4GiB")
    with lab_system(lab, kubeconfig, state, nodes, *OPTIONS) as system:
        jobs = [f"job-{number}" for number in range(4)]
        for job in jobs:
            system.submit(job, "python3", "-c", BUSY, RESTS, options=("--cpu", "0.05"))
        where = {job: system.await_event(placed(job)).node for job in jobs}
        ill = {job: node for job, node in where.items() if node == "node-a"}
        assert sorted(where.values()) == ["node-a", "node-a", "node-b", "node-b"]
        before = system.look_for(calm_paces(*jobs), since=0, patience_s=150)
        if before is None:
            pytest.skip("others use this machine's CPU: the jobs' steps are too noisy")
        groups = [
            KernelGroup(process.pid).folder for process, line in with_command_lines() if line[-2:] == [BUSY, RESTS]
        ]
        (group,) = {above for each in groups for above in each.parents if above.name == NODES[0].group}
        used_m = median_use(system.events(), "node-a")
        with throttled(group, used_m * 3 // 5):
            moved = system.look_for(all_moved(ill), since=before, patience_s=150)
        records = [one for one in system.events() if one.offset > before]
        report(records, ill)
        assert moved is not None
        assert closed_nodes(records) == ["node-a"]
        found = [one.event for one in records if isinstance(one.event, c.FindingOpened)]
        assert {(event.kind, event.job) for event in found} == {(FindingKind.SLOWED, job) for job in ill}
        assert system.breaches() == []
    lab.kubectl("-n", NAMESPACE, "delete", "jobs", "-l", "steepest.dev/managed=true", "--wait=false")


@contextmanager
def throttled(group: Path, limit_m: int) -> Iterator[None]:
    """A node's group may use so much; in version 1 of control groups, no quota in it may be larger."""
    quota_us, before = 100 * limit_m, {}
    for below in sorted(group.rglob("cpu.cfs_quota_us"), key=lambda file: -len(file.parts)):
        if below.parent != group and int(below.read_text()) > quota_us:
            before[below] = below.read_text()
            cap(below.parent, limit_m, 2 * limit_m)
    cap(group, limit_m, 2 * limit_m)
    try:
        yield
    finally:
        cap(group, None, 2 * limit_m)
        for below, quota in reversed(before.items()):
            with contextlib.suppress(OSError):  # its pod has ended
                below.write_text(quota)


def median_use(records: list[Received[c.ClusterEvent]], node: str) -> int:
    """The CPU that its jobs used lately, in millicores."""
    used = [
        sum(one.event.jobs.values()) for one in records if isinstance(one.event, c.NodeUsage) and one.event.node == node
    ]
    return sorted(used[-20:])[10]
