"""A container gets no more of the machine than its job needs, and foreign containers are left alone."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.harness.contracts.cluster_harness import JOB, OTHER, PATIENCE_S, ClusterFixture
from tests.harness.docker_harness import DockerHarness

from steepest.cluster.allowed_folders import Allowed
from steepest.cluster.container_paths import CHECKPOINTS, CONTROL
from steepest.cluster.docker.container import MOST_PROCESSES, name_of
from steepest.cluster.docker.mounts import NOBODY
from steepest.cluster.folders.folder_label import label_of
from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.errors import ClusterError, RefusedError
from steepest_lab.docker_engines.engine_daemon import DockerEngine
from steepest_lab.docker_engines.images import BASE

STARTED, TRIED_MOST = 8, 400
"""Containers in a folder that is a link about half of the time, when it is looked at and when the engine starts them."""

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
    """No capability, and no way to get one; bounded processes and memory; the user who owns the allowed folder."""
    work = tmp_path / "work"
    (work / "roots").mkdir(parents=True)
    os.chown(work, 1234, 2345)
    harness.allowed = Allowed.named([work], harness.state.path)
    await harness.come_back()
    own = [work / "model", Path(CHECKPOINTS, "step"), Path(CONTROL, "hello.json")]
    found = await look(stage, work=work / "roots", writes=[*own, Path("/etc/x"), work / "roots" / "x"])

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


@pytest.mark.parametrize("has_folder", [False, True])
async def test_no_job_runs_as_root(
    stage: ClusterFixture, harness: DockerHarness, tmp_path: Path, *, has_folder: bool
) -> None:
    """Without a folder, and in one that root owns, it runs as nobody, although the adapter runs as root."""
    work = tmp_path / "work"
    work.mkdir()
    harness.allowed = Allowed.named([work], harness.state.path)
    await harness.come_back()
    found = await look(stage, work=work if has_folder else None, writes=[work / "x"])

    assert found["user"] == [NOBODY, NOBODY]
    assert found["wrote"] == {str(work / "x"): errno.EACCES if has_folder else errno.ENOENT}


@pytest.mark.parametrize("asked", ["/", "/etc", "../outside", "a-link", "state"])
async def test_a_folder_that_jobs_may_not_have_is_refused(
    stage: ClusterFixture, harness: DockerHarness, tmp_path: Path, asked: str
) -> None:
    """Links are resolved first; the message names the folder and the option, nothing of the start stays, and it is final."""
    allowed, outside = tmp_path / "allowed", tmp_path / "outside"
    allowed.mkdir()
    outside.mkdir()
    (allowed / "a-link").symlink_to(outside)
    harness.allowed = Allowed((allowed, harness.state.path), harness.state.path)
    await harness.come_back()
    work = harness.state.path if asked == "state" else allowed / asked
    with pytest.raises(RefusedError) as refused:
        await stage.cluster.start(JOB, 1, stage.here, ReplicaSpec(command=("true",), working_dir=str(work)), None)

    assert refused.value.code == "no-such-program"
    assert str(work) in str(refused.value)
    assert await stage.cluster.lookup(JOB) is None
    assert harness.containers(stage.here) == []


FLIP = """
import ctypes, os, time
os.symlink(OUTSIDE, "link")
libc, here, exchange = ctypes.CDLL(None), -100, 2
while True:
    libc.renameat2(here, b"sub", here, b"link", exchange)
    time.sleep(0.0003)
"""
LEAK = """
import os
print("user", os.getuid(), os.getgid())
print("here", os.listdir("."))
for path in ("secret", os.path.join(OUTSIDE, "secret")):
    try: print("READ", open(path).read())
    except OSError: pass
try: open("written", "w")
except OSError: pass
"""


@pytest.mark.long
async def test_a_folder_that_becomes_a_link_while_containers_start_leads_nowhere(
    stage: ClusterFixture, harness: DockerHarness, tmp_path: Path
) -> None:
    """A job swaps its folder with a link to one of the host's, without a gap: no other job gets anything of that folder."""
    tenant, outside = tmp_path / "tenant", tmp_path / "outside"
    for folder in (tenant, tenant / "sub", outside):
        folder.mkdir()
    for folder in (tenant, tenant / "sub"):
        os.chown(folder, 1234, 1234)
    (outside / "secret").write_text("OF THE HOST")
    harness.allowed = Allowed.named([tenant], harness.state.path)
    await harness.come_back()
    flip, leak = (code.replace("OUTSIDE", repr(str(outside))) for code in (FLIP, LEAK))
    flipping = ReplicaSpec(command=("python3", "-c", flip), working_dir=str(tenant))
    await stage.cluster.start(OTHER, 1, stage.there, flipping, None)
    printed = await leaks(stage, leak, tenant / "sub")

    assert {line for each in printed for line in each if line.startswith("user")} == {"user 1234 1234"}
    assert not [each for each in printed if any("secret" in line or "READ" in line for line in each)]
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]


async def leaks(stage: ClusterFixture, code: str, work: Path) -> list[list[str]]:
    """What containers print that start in a folder, until so many have."""
    spec = ReplicaSpec(command=("python3", "-c", code), working_dir=str(work))
    printed: list[list[str]] = []
    for number in range(TRIED_MOST):
        replica = ReplicaId(f"leak-{number}")
        with contextlib.suppress(ClusterError):  # it was a link just then
            await stage.cluster.start(replica, 1, stage.here, spec, None)
            await stage.end(replica)
            printed.append(stage.output(replica).splitlines())
        if len(printed) == STARTED:
            return printed
    raise AssertionError(f"only {len(printed)} of {TRIED_MOST} have started")


async def test_the_installations_own_folder_is_not_seen(
    stage: ClusterFixture, harness: DockerHarness, tmp_path: Path
) -> None:
    """A job that works in the folder around it sees nothing of it, and writes to its own control folder and checkpoints."""
    root = harness.state.path.parent / "root"
    log = root / "log"
    log.mkdir(parents=True)
    (log / "secret").touch()
    root.chmod(0o700)  # as a state folder is; some versions of runc give that to what hides it
    harness.state = type(harness.state)(root / "cluster")
    os.chown(tmp_path, 1234, 1234)
    harness.allowed = Allowed.named([tmp_path], root)
    await harness.come_back()
    own = [Path(CHECKPOINTS, "step"), Path(CONTROL, "hello.json")]
    found = await look(stage, work=tmp_path, reads=[root, log, tmp_path], writes=own)

    assert found["saw"][str(root)] in ([], errno.EACCES)
    assert found["saw"][str(log)] in {errno.ENOENT, errno.EACCES}
    assert found["wrote"] == {str(path): None for path in own}
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
