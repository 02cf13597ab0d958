"""A really full disk: a small file system, where this user may mount one."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.harness.waiting import until

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.local import LocalCluster
from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.errors import ClusterError
from steepest.events.heartbeat import ReplicaState

JOB = ReplicaId("mnist")
SLEEP = ReplicaSpec(command=("sleep", "600"))  # a job that writes could fail by itself


@pytest.fixture
def state(tmp_path: Path) -> Iterator[AdapterFolder]:
    """A state folder on a disk of 512 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield AdapterFolder(disk / "state")
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(state: AdapterFolder) -> Path:
    """Take all room on the disk; give the file to remove."""
    filler = state.path.parent / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        (filler.parent / "more").write_bytes(b"x")
    return filler


async def phase(cluster: LocalCluster) -> ReplicaPhase | None:
    """Where the job stands."""
    status = await cluster.lookup(JOB)
    return status.phase if status else None


async def test_a_start_on_a_full_disk_fails_definitely(cluster: LocalCluster, state: AdapterFolder) -> None:
    """Nothing starts, the error says so, and the same start succeeds once there is room."""
    assert await cluster.lookup(JOB) is None
    filler = fill(state)
    with pytest.raises(ClusterError) as caught:
        await cluster.start(JOB, 1, "a", SLEEP, None)
    assert caught.value.definite
    filler.unlink()
    await cluster.start(JOB, 1, "a", SLEEP, None)

    assert await phase(cluster) == ReplicaPhase.RUNNING


async def test_a_full_disk_does_not_hide_how_a_job_ended(
    make_cluster: Callable[[], LocalCluster], state: AdapterFolder
) -> None:
    """The room for the exit record is taken at the start, so the status is known on a full disk too."""
    cluster = make_cluster()
    await cluster.start(JOB, 1, "a", SLEEP, None)
    start = state.incarnations(JOB)[-1].started()
    assert start is not None
    fill(state)
    os.kill(start.pid, signal.SIGKILL)
    stopped = await cluster.stop(JOB, 1, grace_s=60.0)
    status = await make_cluster().lookup(JOB)

    assert stopped.exit_status == -9
    assert status is not None
    assert (status.phase, status.exit_status) == (ReplicaPhase.EXITED, -9)


async def test_a_request_on_a_full_disk_is_not_made(cluster: LocalCluster, state: AdapterFolder) -> None:
    """A checkpoint request that cannot be written fails definitely, and the job trains on."""
    await cluster.start(JOB, 1, "a", SLEEP, None)
    fill(state)
    with pytest.raises(ClusterError) as caught:
        await cluster.checkpoint(JOB, 1, request="r1", hold_s=600.0, timeout_s=60.0)

    assert (caught.value.code, caught.value.definite) == ("io-failed", True)
    assert await phase(cluster) == ReplicaPhase.RUNNING
    assert not state.incarnations(JOB)[-1].request.exists()


async def test_a_job_that_prints_onto_a_full_disk_goes_on(cluster: LocalCluster, state: AdapterFolder) -> None:
    """What it prints is lost and counted; the job itself does not fail."""
    script = "while ! test -e $STEEPEST_CONTROL/go; do echo x; done; exit 7"
    await cluster.start(JOB, 1, "a", ReplicaSpec(command=("sh", "-c", script)), None)
    filler = fill(state)
    folder = state.incarnations(JOB)[-1]
    full = folder.output.stat().st_size
    filler.unlink()
    await until(lambda: folder.output.stat().st_size > full, "the job prints onto the disk again")
    (folder.control / "go").touch()
    async for beat in cluster.heartbeats():
        if [(report.state, report.exit_status) for report in beat.replicas] == [(ReplicaState.EXITED, 7)]:
            break

    assert folder.output.stat().st_size > full
