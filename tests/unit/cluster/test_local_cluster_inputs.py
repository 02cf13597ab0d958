"""What jobs and callers may do wrong, on a running cluster: nothing of it stops anything."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.harness.contracts import contract_job

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.local import LocalCluster
from steepest.cluster.local.process_roster import LocalTracked
from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.errors import ClusterError, InputError, RefusedError, UncertainError
from steepest.events.common import Resources
from steepest.events.heartbeat import ReplicaReport, ReplicaState

JOB = ReplicaId("mnist")

HOSTILE = """
    import json, os, signal, time
    control = os.environ["STEEPEST_CONTROL"]
    for name in ("hello.json", "checkpoint-ack.json"):
        open(os.path.join(control, name), "w").write("{" * 1000)
    reports = open(os.path.join(control, "reports.jsonl"), "w")
    reports.write("garbage\\n" + json.dumps({"step": 5}) + "\\n" + json.dumps({"step": "x"}) + "\\n")
    reports.flush()
    ANSWER
    time.sleep(600)
"""
ANSWER_WITH = """
    request = os.path.join(control, "checkpoint-request.json")
    while not os.path.exists(request):
        time.sleep(0.01)
    answer = {"request": json.load(open(request))["request"], "name": NAME, "step": 5, "digest": "sha256:00"}
    json.dump(answer, open(os.path.join(control, "ack"), "w"))
    os.rename(os.path.join(control, "ack"), os.path.join(control, "checkpoint-ack.json"))
"""


def python(code: str, **env: str) -> ReplicaSpec:
    """A spec that runs this code."""
    return ReplicaSpec(command=(sys.executable, "-c", textwrap.dedent(code)), env=env)


def train(*arguments: str) -> ReplicaSpec:
    """The contract's job."""
    return ReplicaSpec(command=(sys.executable, contract_job.__file__, *arguments))


async def report_of(cluster: LocalCluster, wanted: Callable[[ReplicaReport], bool]) -> ReplicaReport:
    """The first report that is as wanted."""
    async for beat in cluster.heartbeats():
        for report in beat.replicas:
            if wanted(report):
                return report
    raise AssertionError("the heartbeats ended")


async def test_garbage_from_a_job_is_skipped(cluster: LocalCluster) -> None:
    """Files of a job that cannot be read say nothing; the rest of what it says counts."""
    await cluster.start(JOB, 1, "a", python(HOSTILE.replace("ANSWER", "")), None)
    step = await cluster.wait_for_step(JOB, 1, at_least=5, timeout_s=60.0)
    report = await report_of(cluster, lambda report: report.step is not None)

    assert step == report.step == 5
    assert report.checkpoint_mode is None


@pytest.mark.parametrize("name", ["../../../etc", "step-00000005-i0001", "", ".."])
async def test_a_lie_about_a_checkpoint_is_refused(cluster: LocalCluster, name: str) -> None:
    """An answer that names what is no checkpoint, wherever it lies, is refused as invalid."""
    code = HOSTILE.replace("    ANSWER\n", ANSWER_WITH.replace("NAME", repr(name)))
    await cluster.start(JOB, 1, "a", python(code), None)
    await cluster.wait_for_step(JOB, 1, at_least=5, timeout_s=60.0)
    with pytest.raises(RefusedError) as caught:
        await cluster.checkpoint(JOB, 1, request="r1", hold_s=1.0, timeout_s=60.0)

    assert caught.value.code == "checkpoint-invalid"


THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@pytest.mark.parametrize(
    ("cpu_m", "own", "found"),
    [
        (0, {}, "1 1 1 1"),
        (50, {}, "1 1 1 1"),
        (2_000, {}, "2 2 2 2"),
        (2_000, {"MKL_NUM_THREADS": "4"}, "2 4 2 2"),
        (1_000, {"OMP_NUM_THREADS": "3"}, "3 3 3 3"),
        (1_000, {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "2"}, "3 2 3 3"),
    ],
)
async def test_libraries_get_the_threads_that_are_asked_for(
    cluster: LocalCluster, cpu_m: int, own: dict[str, str], found: str
) -> None:
    """As many as whole cores are requested, at least one; a user's own variable wins, and OpenMP's counts for all."""
    spec = python(f"import os; print(*[os.environ[name] for name in {THREADS!r}])", **own)
    await cluster.start(JOB, 1, "a", msgspec.structs.replace(spec, requests=Resources(cpu_m)), None)
    await cluster.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)

    assert cluster.files("a")[0].output.read_text() == f"{found}\n"


async def test_a_job_may_print_to_a_terminal(cluster: LocalCluster) -> None:
    """It is wide, and passes on what is printed as it is."""
    code = """
        import os, sys
        print(sys.stdout.isatty(), sys.stderr.isatty(), sys.stdin.isatty(), os.get_terminal_size().columns)
        print("one\\rtwo")
    """
    await cluster.start(JOB, 1, "a", msgspec.structs.replace(python(code), tty=True), None)
    await cluster.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)

    assert cluster.files("a")[0].output.read_bytes() == b"True True False 200\none\rtwo\n"


async def test_a_job_inherits_the_environment(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without control variables, which are its own and not what its user claims."""
    monkeypatch.setenv("STEEPEST_RESTORE", "of another job")
    monkeypatch.setenv("INHERITED", "yes")
    names = ("PYTHONUNBUFFERED", "INHERITED", "STEEPEST_RESTORE", "STEEPEST_JOB")
    spec = python(f"import os; print([os.environ[name] for name in {names!r}])", STEEPEST_JOB="a lie")
    await cluster.start(JOB, 1, "a", spec, None)
    await cluster.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)

    assert cluster.files("a")[0].output.read_text() == "['1', 'yes', '', 'mnist']\n"


@pytest.mark.parametrize(("own", "found"), [({}, "00-its-trace-01"), ({"TRACEPARENT": "its own"}, "its own")])
async def test_a_process_finds_the_trace_that_started_it(
    cluster: LocalCluster, own: dict[str, str], found: str
) -> None:
    """What a job's user says of `TRACEPARENT` goes before the trace of the start."""
    spec = python("import os; print(os.environ['TRACEPARENT'])", **own)
    await cluster.start(JOB, 1, "a", msgspec.structs.replace(spec, trace="00-its-trace-01"), None)
    await cluster.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)

    assert cluster.files("a")[0].output.read_text() == f"{found}\n"


@pytest.mark.parametrize(
    "spec",
    [
        ReplicaSpec(command=()),
        ReplicaSpec(command=("no-such-program-anywhere",)),
        ReplicaSpec(command=("true\0",)),
        ReplicaSpec(command=("true",), env={"X": "\0"}),
        ReplicaSpec(command=("true",), working_dir="/no/such/folder"),
        ReplicaSpec(command=(os.devnull,)),
    ],
    ids=["empty", "missing", "nul", "nul in env", "no folder", "not executable"],
)
async def test_what_cannot_be_run_is_refused(cluster: LocalCluster, spec: ReplicaSpec) -> None:
    """A command that surely cannot run is refused, and nothing is known of the replica."""
    with pytest.raises(RefusedError) as caught:
        await cluster.start(JOB, 1, "a", spec, None)

    assert caught.value.code == "no-such-program"
    assert await cluster.lookup(JOB) is None


async def test_a_script_that_may_not_be_executed_is_refused_as_such(cluster: LocalCluster, tmp_path: Path) -> None:
    """It is there: the error names the bit that it lacks."""
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    spec = ReplicaSpec(command=("./run.sh",), working_dir=str(tmp_path))
    with pytest.raises(RefusedError, match=r"may not be executed") as caught:
        await cluster.start(JOB, 1, "a", spec, None)

    assert "chmod" in caught.value.hint


async def test_a_program_that_is_none_is_refused(cluster: LocalCluster, state: AdapterFolder) -> None:
    """A file that may be executed but is no program is found out by the kernel, and leaves no trace either."""
    program = state.path.parent / "program"
    program.write_bytes(b"\0\1\2")
    program.chmod(0o700)
    with pytest.raises(RefusedError) as caught:
        await cluster.start(JOB, 1, "a", ReplicaSpec(command=(str(program),)), None)

    assert caught.value.code == "no-such-program"
    assert await cluster.lookup(JOB) is None


async def test_a_relative_program_is_sought_in_the_working_folder(cluster: LocalCluster, state: AdapterFolder) -> None:
    """A path with a slash begins at the working folder, as it would in a shell there."""
    folder = state.path.parent / "work"
    folder.mkdir()
    (folder / "run").write_text("#!/bin/sh\npwd\n")
    (folder / "run").chmod(0o700)
    await cluster.start(JOB, 1, "a", ReplicaSpec(command=("./run",), working_dir=str(folder)), None)
    await cluster.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)

    assert cluster.files("a")[0].output.read_text().strip() == str(folder)


async def test_a_long_command_is_read_by_the_next_adapter(make_cluster: Callable[[], LocalCluster]) -> None:
    """The adapter's own records have no limit below that of a request: another adapter finds the job, and stops it."""
    first = make_cluster()
    await first.start(JOB, 1, "a", ReplicaSpec(command=("sh", "-c", "sleep 600", *["x" * 100_000] * 2)), None)
    await first.close()
    second = make_cluster()
    found = await second.lookup(JOB)
    await second.stop(JOB, 1, grace_s=0.0)

    assert found is not None
    assert found.phase == ReplicaPhase.RUNNING


async def test_a_failing_disk_is_a_definite_failure(cluster: LocalCluster, state: AdapterFolder) -> None:
    """A start that fails before anything could run says that nothing happened."""
    assert await cluster.lookup(JOB) is None
    (state.jobs / "mnist").write_text("a file where the job's folder should be")
    with pytest.raises(ClusterError) as caught:
        await cluster.start(JOB, 1, "a", train(), None)

    assert caught.value.definite
    assert caught.value.code == "io-failed"


async def test_a_damaged_record_is_uncertain(make_cluster: Callable[[], LocalCluster], state: AdapterFolder) -> None:
    """If it cannot be read where a replica is, nothing is assumed by an adapter that has not started it."""
    cluster = make_cluster()
    await cluster.start(JOB, 1, "a", train(), None)
    state.incarnations(JOB)[-1].spec.write_text("{")
    with pytest.raises(UncertainError) as caught:
        await make_cluster().lookup(JOB)

    assert caught.value.code == "damaged-state"


async def test_a_name_that_leads_elsewhere_is_no_job(cluster: LocalCluster) -> None:
    """A job's name cannot reach out of the state folder."""
    for name in ("../x", "", "A"):
        with pytest.raises(InputError):
            await cluster.start(ReplicaId(name), 1, "a", train(), None)


async def test_a_throttled_job_leaves_at_full_speed(cluster: LocalCluster) -> None:
    """A job that is stopped most of the time is continued to save and leave: its grace is not spent asleep."""
    await cluster.start(JOB, 1, "a", train(), None)
    await cluster.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)
    await cluster.limit(JOB, 1, 1)
    stopped = await cluster.stop(JOB, 1, grace_s=60.0)

    assert stopped.exit_status == 85


async def test_a_limit_outlives_the_adapter(make_cluster: Callable[[], LocalCluster]) -> None:
    """A cap set by one adapter is what the next one enforces."""
    first = make_cluster()
    await first.start(JOB, 1, "a", train("--burn"), None)
    await first.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)
    await first.limit(JOB, 1, 123)
    await first.close()
    second = make_cluster()
    await second.lookup(JOB)
    assert second._background is not None
    tracked = second._background.roster.get(JOB)

    assert tracked is not None
    assert tracked.limit_m == 123


async def test_use_is_unknown_until_it_is_measured(cluster: LocalCluster) -> None:
    """CPU is None before two measurements, never 0; memory is known once there is one."""
    await cluster.start(JOB, 1, "a", train("--burn"), None)
    first = await report_of(cluster, lambda _: True)
    later = await report_of(cluster, lambda report: report.cpu_m is not None)

    assert first.cpu_m is None
    assert (later.memory_mib or 0) > 0


async def test_children_count_towards_use(cluster: LocalCluster) -> None:
    """What the processes of a job use counts, and not only what its first one does."""
    burner = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    await cluster.start(JOB, 1, "a", python(burner), None)

    report = await report_of(cluster, lambda report: (report.cpu_m or 0) > 100)
    assert report.state == ReplicaState.RUNNING


async def test_a_closed_cluster_says_so(cluster: LocalCluster) -> None:
    """A call after close fails definitely; closing twice does nothing."""
    await cluster.lookup(JOB)
    await cluster.close()
    await cluster.close()
    with pytest.raises(ClusterError) as caught:
        await cluster.lookup(JOB)

    assert (caught.value.code, caught.value.definite) == ("closed", True)


async def test_a_slow_consumer_gets_the_newest_heartbeats(cluster: LocalCluster) -> None:
    """Heartbeats do not pile up: a late consumer gets the current one, which lists every end."""
    await cluster.start(JOB, 1, "a", train("--steps", "3"), None)
    beats = cluster.heartbeats()
    await anext(beats)
    await report_of(cluster, lambda report: report.exit_status == 0)
    late = await anext(beats)

    assert [report.exit_status for report in late.replicas] == [0]


async def test_an_error_of_one_incarnation_affects_no_other(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error hides one incarnation; the others begin and end as usual."""
    look = LocalTracked.look

    def fail_for_one(self: LocalTracked, boot: str) -> bool:
        if self.folder.replica == JOB:
            raise ZeroDivisionError
        return look(self, boot)

    monkeypatch.setattr(LocalTracked, "look", fail_for_one)
    await cluster.start(JOB, 1, "a", train(), None)
    await cluster.start(ReplicaId("other"), 1, "a", ReplicaSpec(command=("true",)), None)

    async for beat in cluster.heartbeats():
        if [(report.job, report.state) for report in beat.replicas] == [("other", ReplicaState.EXITED)]:
            break


async def test_an_adapter_that_hangs_is_known_to_be_silent(cluster: LocalCluster) -> None:
    """A call that never returns is reported, and no longer reported once it has returned."""
    assert cluster.silence_s() == 0.0
    assert await cluster.lookup(JOB) is None
    engine = cluster._background
    assert engine is not None
    await engine._looking.acquire()
    engine._last_round["look"] -= 1000.0

    assert cluster.silence_s() >= 1000.0
    engine._looking.release()
    async for _ in cluster.heartbeats():
        if cluster.silence_s() < 1000.0:
            break


async def test_a_consumer_that_leaves_takes_no_end_with_it(cluster: LocalCluster, state: AdapterFolder) -> None:
    """A consumer cancelled while an end is still being looked into does not keep the others from hearing of it."""
    await cluster.start(JOB, 1, "a", train(), None)
    await cluster.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)
    engine = cluster._background
    assert engine is not None
    await engine.checkpoint(JOB.job, within_s=60.0)
    verifying = engine._volumes[JOB.job][1]
    await verifying.acquire()
    start = state.incarnations(JOB)[-1].started()
    assert start is not None
    os.kill(start.pid, signal.SIGKILL)
    while not engine.roster.on("a")[0].seen.ended:
        await engine.look()
    leaving = asyncio.ensure_future(anext(cluster.heartbeats()))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    verifying.release()
    report = await report_of(cluster, lambda report: report.state != ReplicaState.RUNNING)

    assert report.exit_status == -9


async def test_many_jobs_start_and_end_concurrently(cluster: LocalCluster) -> None:
    """Calls for different jobs do not wait for each other, and none is lost."""
    jobs = [ReplicaId(f"job{number}") for number in range(8)]
    await asyncio.gather(*(cluster.start(job, 1, "a", train(), None) for job in jobs))
    await asyncio.gather(*(cluster.wait_for_step(job, 1, at_least=1, timeout_s=60.0) for job in jobs))
    stopped = await asyncio.gather(*(cluster.stop(job, 1, grace_s=60.0) for job in jobs))
    await asyncio.gather(*(cluster.forget(job.job) for job in jobs))

    assert [each.exit_status for each in stopped] == [85] * len(jobs)
    assert [await cluster.lookup(job) for job in jobs] == [None] * len(jobs)


async def test_a_gang_s_replicas_are_apart(cluster: LocalCluster) -> None:
    """Replicas of one job share its volume and nothing else."""
    for index in (0, 1):
        await cluster.start(ReplicaId("gang", index), 1, "a", train(), None)
        await cluster.wait_for_step(ReplicaId("gang", index), 1, at_least=1, timeout_s=60.0)
    await cluster.stop(ReplicaId("gang", 0), 1, grace_s=60.0)
    other = await cluster.lookup(ReplicaId("gang", 1))

    assert other is not None
    assert other.phase == ReplicaPhase.RUNNING
    assert other.checkpoint is not None


async def test_a_job_that_damages_its_own_record_is_seen_to_its_end(cluster: LocalCluster) -> None:
    """The cluster that started the job remembers its spec, even if the job damages the file."""
    damage = "rm $STEEPEST_CONTROL/../spec.json; mkfifo $STEEPEST_CONTROL/../spec.json; exit 7"
    await cluster.start(JOB, 1, "a", ReplicaSpec(command=("sh", "-c", damage)), None)
    async for beat in cluster.heartbeats():
        if [(report.state, report.exit_status) for report in beat.replicas] == [(ReplicaState.EXITED, 7)]:
            break
    status = await cluster.lookup(JOB)

    assert status is not None
    assert (status.node, status.phase) == ("a", ReplicaPhase.EXITED)


async def test_a_folder_that_its_job_has_removed_makes_nobody_poll(cluster: LocalCluster, state: AdapterFolder) -> None:
    """Only a system without watches left looks twenty times a second."""
    assert await cluster.lookup(JOB) is None
    engine = cluster._background
    assert engine is not None
    before = engine.watch.poll_s
    engine.watch.add(state.path / "not there")

    assert engine.watch.poll_s == before
