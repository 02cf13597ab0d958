"""A container gets no more of the machine than its job needs, and foreign containers are left alone."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from steepest.cluster.docker.container import MOST_PROCESSES, name_of
from steepest.cluster.docker.mounts import NOBODY, Allowed
from steepest.cluster.folders.folder_label import label_of
from steepest.cluster.port import ReplicaPhase, ReplicaSpec
from steepest.docker_lab.engine_daemon import DockerEngine
from steepest.docker_lab.images import BASE
from steepest.errors import ClusterError, RefusedError
from steepest.testing.contracts.cluster_harness import JOB, PATIENCE_S, ClusterFixture
from steepest.testing.contracts.docker_harness import DockerHarness

LOOK = """
import json, os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
def write(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return error.errno
def read(path):
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        return error.errno
print(json.dumps({
    "user": [os.getuid(), os.getgid()],
    "capabilities": [status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "privileges": status["NoNewPrivs"].strip(),
    "wrote": {path: write(path) for path in WRITES},
    "saw": {path: read(path) for path in READS},
}), flush=True)
"""


async def look(
    stage: ClusterFixture, *, work: Path | None, writes: list[Path] | None = None, reads: list[Path] | None = None
) -> Any:
    """The rights that a container reports."""
    code = LOOK.replace("WRITES", str([str(each) for each in writes or []])).replace(
        "READS", str([str(each) for each in reads or []])
    )
    spec = ReplicaSpec(command=("python3", "-c", code), working_dir=None if work is None else str(work))
    await stage.cluster.start(JOB, 1, stage.here, spec, None)
    assert await stage.end() == (ReplicaPhase.EXITED, 0), stage.output()
    return json.loads(stage.output())


async def test_a_container_has_no_rights_that_training_does_not_need(
    stage: ClusterFixture, harness: DockerHarness, tmp_path: Path
) -> None:
    """No capability, and no way to get one; bounded processes and memory; the user whose folder it works in."""
    work = tmp_path / "work"
    work.mkdir()
    os.chown(work, 1234, 2345)
    harness.allowed = Allowed((work,), harness.state.path)
    await harness.come_back()
    control = harness.state.incarnation(JOB, 1).control
    checkpoints = harness.state.checkpoints(JOB.job)
    own = [work / "model", checkpoints / "step", control / "hello.json"]
    found = await look(stage, work=work, writes=[*own, Path("/etc/x")])

    assert found["user"] == [1234, 2345]
    assert set(found["capabilities"]) == {"0" * 16}
    assert found["privileges"] == "1"
    assert [path for path, refused in found["wrote"].items() if refused is None] == [str(path) for path in own]


async def test_a_container_is_bounded_by_its_engine(stage: ClusterFixture, harness: DockerHarness) -> None:
    """By the memory of its node, where nothing less was asked for."""
    await stage.train()
    with harness.client_of(JOB) as (client, name):
        has = client.inspect_container(name)["HostConfig"]

    assert has["PidsLimit"] == MOST_PROCESSES
    assert has["Memory"] == has["MemorySwap"] == harness.nodes[stage.here].memory_mib << 20
    assert has["CapDrop"] == ["ALL"]
    assert not has["Privileged"]


async def test_a_job_without_a_folder_runs_as_nobody(stage: ClusterFixture, harness: DockerHarness) -> None:
    """This holds although the adapter runs as root."""
    del harness
    found = await look(stage, work=None)

    assert found["user"] == [NOBODY, NOBODY]


@pytest.mark.parametrize("asked", ["/", "/etc", "../outside", "a-link", "state"])
async def test_a_folder_that_jobs_may_not_have_is_refused(
    stage: ClusterFixture, harness: DockerHarness, tmp_path: Path, asked: str
) -> None:
    """Links are resolved first; the message names the folder and the option, nothing of the start stays, and it is final."""
    allowed, outside = tmp_path / "allowed", tmp_path / "outside"
    allowed.mkdir()
    outside.mkdir()
    (allowed / "a-link").symlink_to(outside)
    harness.allowed = Allowed((allowed, harness.state.path.parent / "state"), harness.state.path)
    await harness.come_back()
    work = harness.state.path if asked == "state" else allowed / asked
    with pytest.raises(RefusedError) as refused:
        await stage.cluster.start(JOB, 1, stage.here, ReplicaSpec(command=("true",), working_dir=str(work)), None)

    assert refused.value.code == "no-such-program"
    assert str(work) in str(refused.value)
    assert await stage.cluster.lookup(JOB) is None
    assert harness.containers(stage.here) == []


async def test_the_installations_own_folder_is_not_seen(
    stage: ClusterFixture, harness: DockerHarness, tmp_path: Path
) -> None:
    """A job that works in the folder around it sees its own control folder and checkpoints there, and no log."""
    root = harness.state.path.parent / "root"
    log = root / "log"
    log.mkdir(parents=True)
    (log / "secret").touch()
    harness.state = type(harness.state)(root / "cluster")
    harness.allowed = Allowed((tmp_path,), root)
    await harness.come_back()
    found = await look(stage, work=tmp_path, reads=[root, log, tmp_path, harness.state.checkpoints(JOB.job)])

    assert found["saw"][str(root)] == ["cluster"]
    assert found["saw"][str(log)] == 2
    assert found["saw"][str(harness.state.checkpoints(JOB.job))] == []
    assert "root" in found["saw"][str(tmp_path)]


async def test_a_container_of_our_name_that_is_not_ours_is_left_alone(
    stage: ClusterFixture, harness: DockerHarness, engines: dict[str, DockerEngine]
) -> None:
    """It is neither started over, stopped, limited nor removed; the start is refused."""
    name = name_of(label_of(harness.state), harness.state.incarnation(JOB, 1))
    with contextlib.closing(engines[stage.here].client()) as client:
        hosted = client.create_host_config(network_mode="none")
        made = client.create_container(BASE, ["sleep", "1000"], name=name, host_config=hosted)["Id"]
        client.start(made)
        try:
            with pytest.raises(ClusterError) as refused:
                await stage.train()
            assert refused.value.definite
            assert await stage.cluster.lookup(JOB) is None
            await stage.cluster.forget(JOB.job)

            assert client.inspect_container(made)["State"]["Running"]
        finally:
            client.remove_container(made, force=True)
    await stage.train()
    await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)


def test_folders_of_one_path_have_labels_of_their_own(harness: DockerHarness) -> None:
    """Two machines may share an engine and a path for the state folder; the label file in the folder keeps them apart."""
    first = label_of(harness.state)
    (harness.state.path / "label").unlink()
    second = label_of(harness.state)
    moved = harness.state.path.rename(harness.state.path.with_name("moved"))

    assert len(first) == 12
    assert first != second
    assert label_of(type(harness.state)(moved)) == second
