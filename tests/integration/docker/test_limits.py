"""Limits act on the container's own control group, and its usage is measured; unknown usage is reported as unknown."""

from __future__ import annotations

import pytest
from tests.harness.contracts.cluster_harness import JOB, ClusterFixture
from tests.harness.docker_harness import DockerHarness
from tests.harness.kernel_group import KernelGroup
from tests.harness.waiting import until

from steepest.cluster.port import ReplicaSpec
from steepest.errors import RefusedError


async def test_every_limit_is_seen_in_the_container_s_group(stage: ClusterFixture, harness: DockerHarness) -> None:
    """A CPU cap is in the kernel, again and again; beyond the node's capacity, and as None, it is none."""
    await stage.train()
    group = KernelGroup(harness.first_process(JOB))
    for asked, expected in ((300, 300), (50, 50), (799, 799), (800, None), (1, 10), (None, None), (120, 120)):
        await stage.cluster.limit(JOB, 1, asked)
        await until(lambda expected=expected: group.cpu_m() == expected)  # type: ignore[misc]


async def test_a_soft_limit_is_a_weight_and_no_cap(harness: DockerHarness) -> None:
    """It is in the kernel, from the first instruction on; alone on its node, the job uses all of it."""
    await harness.cluster.close()
    harness.cluster = harness.make(soft_limits=True)
    stage = ClusterFixture(harness)
    spec = harness.job("--burn")
    spec = ReplicaSpec(command=spec.command, working_dir=spec.working_dir, cpu_limit_m=80)
    await stage.cluster.start(JOB, 1, "large", spec, None)
    group = KernelGroup(harness.first_process(JOB))
    assert group.cpu_m() is None
    assert group.cpu_weight() == pytest.approx(0.1, abs=0.05)
    for asked, expected in ((400, 0.5), (None, 1.0), (200, 0.25)):
        await stage.cluster.limit(JOB, 1, asked)
        await until(
            lambda expected=expected: group.cpu_weight() == pytest.approx(expected, abs=0.05),  # type: ignore[misc]
        )

    report = await stage.report(lambda found: (found.cpu_m or 0) > 300)
    assert report.job == JOB.job


async def test_memory_is_capped_apart_from_cpu(stage: ClusterFixture, harness: DockerHarness) -> None:
    """A cap of memory is in the kernel and stays while CPU changes; without one the job has its node's memory."""
    await stage.train()
    group = KernelGroup(harness.first_process(JOB))
    await stage.cluster.limit(JOB, 1, 300, memory_limit_mib=64)
    await until(lambda: (group.cpu_m(), group.memory_mib()) == (300, 64))
    await stage.cluster.limit(JOB, 1, None)
    await until(lambda: (group.cpu_m(), group.memory_mib()) == (None, 64))
    await stage.cluster.limit(JOB, 1, None, memory_limit_mib=None)
    await until(lambda: group.memory_mib() == harness.nodes[stage.here].memory_mib)


async def test_a_limit_that_the_engine_refuses_changes_nothing(stage: ClusterFixture, harness: DockerHarness) -> None:
    """Less memory than an engine takes is refused definitely, and the caps are as they were."""
    await stage.train()
    await stage.cluster.limit(JOB, 1, 300, memory_limit_mib=64)
    with pytest.raises(RefusedError) as caught:
        await stage.cluster.limit(JOB, 1, 100, memory_limit_mib=1)

    assert caught.value.code == "limit-refused"
    group = KernelGroup(harness.first_process(JOB))
    assert (group.cpu_m(), group.memory_mib()) == (300, 64)


async def test_a_start_with_a_limit_has_it_from_the_first_instruction(
    stage: ClusterFixture, harness: DockerHarness
) -> None:
    """The cap of the order is the container's before anything runs."""
    spec = harness.job()
    limited = ReplicaSpec(command=spec.command, working_dir=spec.working_dir, cpu_limit_m=250)
    await stage.cluster.start(JOB, 1, stage.here, limited, None)

    assert KernelGroup(harness.first_process(JOB)).cpu_m() == 250


async def test_use_is_measured_and_what_is_unknown_is_none(stage: ClusterFixture) -> None:
    """CPU and memory of a busy job are reported; without a network its network usage is unknown, which is not 0."""
    await stage.train("--burn", "--step-s", "0.05")
    report = await stage.report(lambda found: found.cpu_m is not None)

    assert (report.cpu_m or 0) > 50
    assert (report.memory_mib or 0) >= 1
    assert report.network_bytes_s is None
