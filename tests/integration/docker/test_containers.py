"""Containers are identified by their labels, start at most once, and leave only their output and saved files."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.harness.contracts.cluster_harness import JOB, PATIENCE_S, ClusterFixture
from tests.harness.docker_harness import DockerHarness
from tests.harness.waiting import until

from steepest.cluster.port import ReplicaPhase, ReplicaSpec
from steepest.errors import ClusterError, RefusedError
from steepest_lab.docker_engines.engine_daemon import DockerEngine
from steepest_lab.docker_engines.images import BASE


async def test_a_missing_image_is_refused_by_name(stage: ClusterFixture, harness: DockerHarness) -> None:
    """The error names the image and the command that gets it, nothing of the start stays, and a better one succeeds."""
    spec = ReplicaSpec(command=("python3",), image="no/such-image:7")
    with pytest.raises(RefusedError) as caught:
        await stage.cluster.start(JOB, 1, stage.here, spec, None)

    assert caught.value.code == "no-such-image"
    assert "no/such-image:7" in str(caught.value)
    assert "pull no/such-image:7" in caught.value.hint
    assert await stage.cluster.lookup(JOB) is None
    assert harness.containers(stage.here) == []
    await stage.train()


async def test_no_gang_gets_the_machines_network_unless_it_is_let(harness: DockerHarness) -> None:
    """Its start is refused with the option that allows it, and leaves nothing; a job of one replica runs as ever."""
    await harness.leave()
    harness.cluster = harness.make(host_network=False)
    stage = ClusterFixture(harness)
    with pytest.raises(RefusedError) as caught:
        await stage.start_gang([stage.here, stage.there])

    assert caught.value.code == "host-network"
    assert "up --host-network" in caught.value.hint
    assert await stage.cluster.lookup(JOB) is None
    assert harness.containers(stage.here) == []
    await stage.train()


async def test_what_is_not_ours_is_left_alone(
    stage: ClusterFixture, harness: DockerHarness, engines: dict[str, DockerEngine], tmp_path: Path
) -> None:
    """A container of somebody else's, and one of another state folder, outlive all that this cluster does."""
    other = DockerHarness(tmp_path / "other", engines)
    await other.come_back()
    async with contextlib.aclosing(other):
        await ClusterFixture(other).train()
        with contextlib.closing(engines[stage.here].client()) as client:
            hosted = client.create_host_config(network_mode="none")
            made = client.create_container(BASE, ["sleep", "1000"], name="steepest-bystander", host_config=hosted)["Id"]
            client.start(made)
            try:
                await stage.train()
                await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
                await stage.cluster.forget(JOB.job)
                await harness.leave()
                await harness.come_back()
                await stage.cluster.lookup(JOB)

                assert client.inspect_container(made)["State"]["Running"]
                assert await ClusterFixture(other).phase() == ReplicaPhase.RUNNING
            finally:
                client.remove_container(made, force=True)


async def test_ended_containers_are_removed_after_all_of_them_is_on_record(
    stage: ClusterFixture, harness: DockerHarness
) -> None:
    """After its end nothing of a replica is on the engine; what it printed and how it ended are in the state folder."""
    lines = 3000
    code = (
        f"import sys\nfor n in range({lines}): print('line', n, 'x' * 50, file=(sys.stdout, sys.stderr)[n % 7 == 0])\n"
        "sys.exit(7)"
    )
    spec = ReplicaSpec(command=("python3", "-uc", code))
    await stage.cluster.start(JOB, 1, stage.here, spec, None)
    end = await stage.end()
    await until(lambda: not harness.containers(stage.here), "the container to be removed")

    assert end == (ReplicaPhase.EXITED, 7)
    assert sorted(stage.output().splitlines(), key=lambda line: int(line.split()[1])) == [
        f"line {n} {'x' * 50}" for n in range(lines)
    ]
    assert await stage.phase() == ReplicaPhase.EXITED


async def test_what_is_printed_can_be_read_while_it_runs(stage: ClusterFixture) -> None:
    """While heartbeats are read, printed lines are in the output file of a running job."""
    await stage.train()
    async for _ in stage.cluster.heartbeats():
        with contextlib.suppress(FileNotFoundError):
            if stage.output().split() == ["begins", JOB.job, "1"]:
                break

    assert await stage.phase() == ReplicaPhase.RUNNING


@pytest.fixture
async def small_disk(tmp_path: Path, engines: dict[str, DockerEngine]) -> AsyncIterator[DockerHarness]:
    """A cluster whose state folder is on a disk of 512 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk))
    assert await (await asyncio.create_subprocess_exec(*mount)).wait() == 0
    try:
        async with contextlib.aclosing(DockerHarness(disk / "state", engines)) as made:
            await made.come_back()
            yield made
    finally:
        await (await asyncio.create_subprocess_exec("umount", "--lazy", str(disk))).wait()


def fill(harness: DockerHarness) -> Path:
    """Fill the disk; return the file to remove."""
    filler = harness.state.path.parent / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


async def test_a_full_volume_loses_no_job_and_starts_none_twice(small_disk: DockerHarness) -> None:
    """On a full volume a start fails definitely, an end is known all the same, and with room all of it is on record."""
    stage = ClusterFixture(small_disk)
    spec = ReplicaSpec(command=("sleep", "1000"))
    await stage.cluster.start(JOB, 1, stage.here, spec, None)
    filler = fill(small_disk)
    with pytest.raises(ClusterError) as caught:
        await stage.cluster.checkpoint(JOB, 1, request="r1", hold_s=1.0, timeout_s=1.0)
    assert caught.value.definite
    await small_disk.kill(JOB)
    assert await stage.end() == (ReplicaPhase.EXITED, -9)
    with pytest.raises(ClusterError) as caught:
        await stage.cluster.start(JOB, 2, stage.there, spec, None)
    assert caught.value.definite

    filler.unlink()
    await until(lambda: not small_disk.containers(stage.here), "the ended container to be removed")
    exited = small_disk.state.incarnation(JOB, 1).exit
    assert json.loads(exited.read_text())["status"] == -9
    await stage.cluster.start(JOB, 2, stage.there, spec, None)
    assert await stage.phase() == ReplicaPhase.RUNNING
    assert len(small_disk.containers(stage.there)) == 1
