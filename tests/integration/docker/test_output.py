"""What containers print, copied from engines that keep the newest part of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.harness.contracts.cluster_harness import JOB, ClusterFixture
from tests.harness.docker_harness import DockerHarness
from tests.harness.waiting import until

from steepest.cluster.docker import container
from steepest.cluster.output_copy import MISSING
from steepest.cluster.port import ReplicaPhase, ReplicaSpec

LOG_BYTES = 1 << 20
PRINTS = """
import os, time
begin = 0
for end in ENDS:
    while begin and not os.path.exists(os.path.join(os.environ["STEEPEST_CONTROL"], str(begin))): time.sleep(0.05)
    for first in range(begin, end, 500): print(*range(first, min(first + 500, end)), sep="\\n", flush=True)
    begin = end
"""


def prints(*ends: int) -> ReplicaSpec:
    """A job that prints the numbers up to each end, and waits behind it for a file of its name."""
    return ReplicaSpec(command=("python3", "-c", PRINTS.replace("ENDS", str(ends))))


def lines_to(end: int) -> bytes:
    """What it has printed."""
    return b"".join(b"%d\n" % number for number in range(end))


@pytest.fixture
def small_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines keep 13,000 short lines twice."""
    monkeypatch.setattr(container, "LOG_OPTIONS", {"max-size": str(LOG_BYTES), "max-file": "2"})


@contextlib.asynccontextmanager
async def followed(stage: ClusterFixture) -> AsyncIterator[None]:
    """Heartbeats have a consumer in the block: only then is output copied while a job runs."""

    async def follow() -> None:
        async for _ in stage.cluster.heartbeats():
            pass

    following = asyncio.create_task(follow())
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.usefixtures("small_logs")
async def test_a_new_log_of_the_engine_s_loses_nothing(stage: ClusterFixture, harness: DockerHarness) -> None:
    """It begins several times while it is followed."""
    folder = harness.state.incarnation(JOB, 1)
    ends = range(6_000, 61_000, 6_000)
    await stage.cluster.start(JOB, 1, stage.here, prints(*ends), None)
    async with followed(stage):
        for end in ends[:-1]:
            await until(lambda: folder.output.exists() and folder.output.stat().st_size >= len(lines_to(end)))  # noqa: B023
            (folder.control / str(end)).touch()

    assert await stage.end() == (ReplicaPhase.EXITED, 0)
    assert folder.output.read_bytes() == lines_to(60_000)


@pytest.mark.slow
@pytest.mark.usefixtures("small_logs")
async def test_what_an_engine_has_removed_is_said(stage: ClusterFixture, harness: DockerHarness) -> None:
    """A container prints more than its engine keeps while no adapter copies; what is kept is copied, and once."""
    folder = harness.state.incarnation(JOB, 1)
    await stage.cluster.start(JOB, 1, stage.here, prints(1_000, 101_000), None)
    async with followed(stage):
        await until(lambda: folder.output.exists() and folder.output.read_bytes().endswith(b"\n999\n"))
    await harness.cluster.close()
    (folder.control / "1000").touch()
    with harness.client_of(JOB) as (client, name):
        await asyncio.to_thread(client.wait, name)
        log = Path(client.inspect_container(name)["LogPath"])
        assert sum(part.stat().st_size for part in log.parent.glob(f"{log.name}*")) < 2.2 * LOG_BYTES
    await harness.come_back()

    assert await stage.end() == (ReplicaPhase.EXITED, 0)
    before, after = folder.output.read_bytes().split(MISSING)
    numbers = [int(line) for line in after.split()]
    assert before == lines_to(1_000)
    assert numbers == list(range(numbers[0], 101_000))
    assert len(numbers) > 10_000
