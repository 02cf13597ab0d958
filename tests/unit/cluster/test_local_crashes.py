"""What a SIGKILL at the worst moment leaves: of the adapter's process, of a supervisor, of a job, of their children."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.harness.contracts import contract_job
from tests.harness.waiting import until

from steepest.cluster.folders.adapter_folder import AdapterFolder, StartRecord
from steepest.cluster.folders.folder_watch import Watch, wait
from steepest.cluster.local import LocalCluster
from steepest.cluster.local.supervisor import start_mark
from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaSpec, ReplicaStatus
from steepest.errors import RefusedError

JOB = ReplicaId("doomed")
TRAIN = ReplicaSpec(command=(sys.executable, contract_job.__file__))
ROOT = Path(__file__).parents[3]
DOOMED = "tests.unit.cluster.doomed_adapter"
LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to a subreaper")

WITH_CHILDREN = """
    import json, os, signal, subprocess, sys, time
    sleep = [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"]
    in_group = subprocess.Popen(sleep).pid
    in_own_session = subprocess.Popen(sleep, start_new_session=True).pid
    control = os.environ["STEEPEST_CONTROL"]
    print(in_group, in_own_session, flush=True)
    open(control + "/reports.jsonl", "w").write(json.dumps({"step": 1}) + "\\n")
"""


def python(code: str) -> ReplicaSpec:
    """A job that runs this code."""
    return ReplicaSpec(command=(sys.executable, "-c", textwrap.dedent(code)))


def kill_adapter_at(moment: str, state: AdapterFolder) -> None:
    """Run an adapter in a separate process, which starts the job and is killed at that moment."""
    command = [sys.executable, "-m", DOOMED, str(state.path), moment]
    done = subprocess.run(command, cwd=ROOT, timeout=100, check=False)
    assert done.returncode == -signal.SIGKILL


async def children(cluster: LocalCluster) -> tuple[int, int]:
    """The child in the job's process group and the one in a session of its own, as the job printed them.

    What it printed comes through its supervisor, and may come later than what it reported.
    """
    output = cluster.files("a")[0].output
    await until(lambda: output.read_text().endswith("\n"), "the children's pids")
    in_group, in_own_session = (int(pid) for pid in output.read_text().split())
    return in_group, in_own_session


async def ended(cluster: LocalCluster, replica: ReplicaId = JOB) -> ReplicaStatus:
    """What is known of a replica once it has ended."""
    async for _ in cluster.heartbeats():
        status = await cluster.lookup(replica)
        if status is not None and status.phase in (ReplicaPhase.EXITED, ReplicaPhase.GONE):
            return status
    raise AssertionError("the heartbeats ended")


def started(state: AdapterFolder, replica: ReplicaId = JOB) -> StartRecord:
    """What the supervisor of a replica's newest incarnation wrote at the start."""
    start = state.incarnations(replica)[-1].started()
    assert start is not None
    return start


def supervisor_of(pid: int) -> psutil.Process:
    """The supervisor is the job's parent."""
    parent = psutil.Process(pid).parent()
    assert parent is not None
    return parent


async def appears(path: Path) -> None:
    """Wait until a file is there."""
    watch = Watch()
    watch.add(path.parent)
    pulse = watch.pulse.next_pulse()
    while not await asyncio.to_thread(path.exists):
        await wait(pulse, watch.poll_s)
        pulse = watch.pulse.next_pulse()
    await watch.close()


def lives(pid: int) -> bool:
    """Whether a process runs, as far as it is not a zombie that only waits to be reaped."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def test_a_job_outlives_the_adapter_s_process(cluster: LocalCluster, state: AdapterFolder) -> None:
    """SIGKILL of the process that holds the adapter leaves the job training, and the next adapter in control of it."""
    kill_adapter_at("started", state)
    status = await cluster.lookup(JOB)
    assert status is not None
    assert status.phase == ReplicaPhase.RUNNING
    await cluster.wait_for_step(JOB, 1, at_least=(status.step or 0) + 1, timeout_s=60.0)

    assert (await cluster.stop(JOB, 1, grace_s=60.0)).exit_status == 85


@pytest.mark.parametrize("moment", ["before-spawn", "after-spawn"])
async def test_an_interrupted_start_is_completed(cluster: LocalCluster, state: AdapterFolder, moment: str) -> None:
    """A start that died after the fence was made is completed by the same start, and runs one process."""
    kill_adapter_at(moment, state)
    status = await cluster.lookup(JOB)
    assert status is not None
    assert status.phase == ReplicaPhase.STARTING
    await cluster.start(JOB, 1, "a", TRAIN, None)
    await cluster.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)
    await cluster.stop(JOB, 1, grace_s=60.0)

    assert cluster.files("a")[0].output.read_text().count("begins") == 1


async def test_an_interrupted_start_can_be_stopped(cluster: LocalCluster, state: AdapterFolder) -> None:
    """A stop of what never began ends it for good: a late start of the same incarnation runs nothing."""
    kill_adapter_at("before-spawn", state)
    stopped = await cluster.stop(JOB, 1, grace_s=0.0)
    await cluster.start(JOB, 1, "a", TRAIN, None)
    status = await cluster.lookup(JOB)

    assert stopped.exit_status is None
    assert status is not None
    assert status.phase == ReplicaPhase.GONE


async def test_an_interrupted_start_does_not_block_the_next_incarnation(
    cluster: LocalCluster, state: AdapterFolder
) -> None:
    """What never began surely does not run, so a newer incarnation may start; then the older one is stale."""
    kill_adapter_at("before-spawn", state)
    await cluster.start(JOB, 2, "a", TRAIN, None)
    with pytest.raises(RefusedError, match="stale"):
        await cluster.start(JOB, 1, "a", TRAIN, None)


async def test_children_do_not_outlive_a_job(cluster: LocalCluster) -> None:
    """When the first process leaves, what it left in its process group is killed before the end is reported."""
    await cluster.start(JOB, 1, "a", python(WITH_CHILDREN), None)
    status = await ended(cluster)
    in_group, _ = await children(cluster)

    assert status.exit_status == 0
    assert not lives(in_group)


@LINUX_ONLY
async def test_children_in_a_session_of_their_own_do_not_either(cluster: LocalCluster) -> None:
    """A child that left the process group belongs to the supervisor once its parent is dead, and is killed too."""
    await cluster.start(JOB, 1, "a", python(WITH_CHILDREN), None)
    await ended(cluster)
    _, in_own_session = await children(cluster)

    assert not lives(in_own_session)


async def test_stop_kills_children_that_ignore_sigterm(cluster: LocalCluster) -> None:
    """A stop returns once nothing of the job lives, its children included."""
    await cluster.start(JOB, 1, "a", python(WITH_CHILDREN + "    time.sleep(600)\n"), None)
    await cluster.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)
    in_group, _ = await children(cluster)
    stopped = await cluster.stop(JOB, 1, grace_s=60.0)

    assert stopped.exit_status == -signal.SIGTERM
    assert not lives(in_group)


async def test_orphans_of_a_killed_supervisor_are_killed(cluster: LocalCluster, state: AdapterFolder) -> None:
    """If a supervisor is killed alone, job and children are found and killed, and only then it is gone."""
    await cluster.start(JOB, 1, "a", python(WITH_CHILDREN + "    time.sleep(600)\n"), None)
    await cluster.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)
    pid = started(state).pid
    processes = (pid, *await children(cluster))
    supervisor_of(pid).kill()
    status = await ended(cluster)

    assert (status.phase, status.exit_status) == (ReplicaPhase.GONE, None)
    assert not any(lives(each) for each in processes)


@pytest.mark.parametrize("put", ["os.mkfifo(lock)", "open(lock, 'w').close()", "pass"])
async def test_a_job_that_replaces_its_lock_has_failed(cluster: LocalCluster, state: AdapterFolder, put: str) -> None:
    """It is killed, and ends with that signal: a process that is gone for no fault of its own would cost it no retry."""
    replaces = f"""
    import os, time
    control = os.environ["STEEPEST_CONTROL"]
    while not os.path.exists(os.path.join(control, "started")):
        time.sleep(0.01)
    lock = os.path.join(os.path.dirname(control), "lock")
    os.unlink(lock)
    {put}
    time.sleep(600)
    """
    await cluster.start(JOB, 1, "a", python(replaces), None)
    (state.incarnations(JOB)[-1].control / "started").touch()
    status = await ended(cluster)

    assert (status.phase, status.exit_status) == (ReplicaPhase.EXITED, -signal.SIGKILL)


async def test_orphans_are_found_by_the_next_adapter(
    make_cluster: Callable[[], LocalCluster], state: AdapterFolder
) -> None:
    """Also where the supervisor died while no adapter was there, and its job was stopped at that moment."""
    first = make_cluster()
    await first.start(JOB, 1, "a", python(WITH_CHILDREN + "    time.sleep(600)\n"), None)
    await first.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)
    pid = started(state).pid
    in_group, _ = await children(first)
    await first.close()
    os.kill(in_group, signal.SIGSTOP)
    supervisor_of(pid).kill()
    status = await ended(make_cluster())

    assert status.phase == ReplicaPhase.GONE
    assert not lives(in_group)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any job."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


async def test_nothing_of_another_boot_runs(
    make_cluster: Callable[[], LocalCluster], state: AdapterFolder, bystander: subprocess.Popen[bytes]
) -> None:
    """After a reboot recorded pids mean nothing: the replica is gone, and the process with its pid is not signalled."""
    first = make_cluster()
    await first.start(JOB, 1, "a", TRAIN, None)
    await first.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)
    supervisor_of(started(state).pid).kill()
    assert (await ended(first)).phase == ReplicaPhase.GONE
    await first.close()
    folder = state.incarnations(JOB)[-1]
    folder.gone.unlink()
    folder.write(folder.start, StartRecord(pid=bystander.pid, mark=start_mark(bystander.pid), boot="another boot"))
    status = await make_cluster().lookup(JOB)

    assert status is not None
    assert status.phase == ReplicaPhase.GONE
    assert bystander.poll() is None


async def test_a_reused_pid_is_not_signalled(
    make_cluster: Callable[[], LocalCluster], state: AdapterFolder, bystander: subprocess.Popen[bytes]
) -> None:
    """A process that has the pid on record but another start time is another process: it is not signalled."""
    first = make_cluster()
    await first.start(JOB, 1, "a", TRAIN, None)
    await first.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)
    record = started(state)
    supervisor_of(record.pid).kill()
    await ended(first)
    await first.close()
    folder = state.incarnations(JOB)[-1]
    folder.gone.unlink()
    folder.write(folder.start, StartRecord(pid=bystander.pid, mark=record.mark, boot=record.boot))
    status = await make_cluster().lookup(JOB)

    assert status is not None
    assert status.phase == ReplicaPhase.GONE
    assert bystander.poll() is None


async def test_a_cancelled_call_leaves_no_half_start(cluster: LocalCluster) -> None:
    """A start that is cancelled is carried out in full or not at all, and the cluster knows which."""
    starting = asyncio.create_task(cluster.start(JOB, 1, "a", TRAIN, None))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await cluster.start(JOB, 1, "a", TRAIN, None)
    await cluster.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)
    await cluster.stop(JOB, 1, grace_s=60.0)

    assert cluster.files("a")[0].output.read_text().count("begins") == 1


async def test_a_cancelled_request_holds_nobody(cluster: LocalCluster) -> None:
    """A cancelled checkpoint request leaves no job waiting."""
    spec = ReplicaSpec(command=(*TRAIN.command, "--save-s", "0.2"))
    await cluster.start(JOB, 1, "a", spec, None)
    step = await cluster.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)
    request = asyncio.create_task(cluster.checkpoint(JOB, 1, request="r1", hold_s=600.0, timeout_s=600.0))
    await appears(cluster.files("a")[0].reports.with_name("checkpoint-request.json"))
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request

    assert await cluster.wait_for_step(JOB, 1, at_least=step + 20, timeout_s=60.0)
