"""Unmodified programs are moved between two engines by a keeper that is the first process of their containers."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from tests.harness.docker_harness import DockerHarness
from tests.harness.kept_job import ENV, JOB, PIPES, KeptJob, check_refused, running
from tests.harness.moved_trainings import TRAINING, each_training, moments, move_at, packages
from tests.harness.system.running_system import RunningSystem
from tests.harness.waiting import until
from tests.integration.kept import cases

from steepest.cli.main import main
from steepest.cluster.docker import Allowed
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.keepers import HOME, find_whole
from steepest.cluster.port import Cluster, ReplicaPhase
from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.received import Received
from steepest_lab import jobs
from steepest_lab.docker_engines import images
from steepest_lab.docker_engines.engine_daemon import DockerEngine

ENGINES = ("large", "small")
Make = Callable[..., KeptJob]


@pytest.fixture
def make(harness: DockerHarness, tmp_path: Path) -> Make:
    """Make a job in containers; skipped where there is nothing to keep it."""
    if isinstance(why := find_whole(), str):
        pytest.skip(why)
    work = tmp_path / "work"
    work.mkdir()
    shutil.copy(Path(str(jobs.__file__)).with_name("unchanged.py"), work)
    shutil.copy(str(cases.__file__), work)
    (work / "plain.py").write_text(PIPES)
    for path in (work, *work.iterdir()):
        shutil.chown(path, 65_534, 65_534)
    harness.allowed = Allowed.named([work], harness.state.path)

    def made(*command: str, allowed: bool = True, **env: str) -> KeptJob:
        def cluster(_: Path) -> Cluster:
            harness.cluster = harness.make(system_checkpoints=allowed)
            return harness.cluster

        state, mode = harness.state.path, CheckpointMode.SYSTEM
        return KeptJob(state, command, mode, make=cluster, nodes=ENGINES, folder=work, env=env)

    return made


def unmoved(engine: DockerEngine, work: Path, command: Sequence[str], env: Mapping[str, str]) -> str:
    """What a command prints in a container that nothing moves."""
    with contextlib.closing(engine.client()) as client:
        host = client.create_host_config(binds=[f"{work}:{work}:ro"], network_mode="none")
        made = client.create_container(
            images.BASE, list(command), host_config=host, working_dir=str(work), environment=dict(env)
        )
        client.start(made)
        assert client.wait(made)["StatusCode"] == 0
        printed: bytes = client.logs(made)
        client.remove_container(made)
    return printed.decode()


@pytest.mark.end_to_end
@pytest.mark.parametrize("program", ["unchanged.py --steps=300 --pause=", "plain.py 300 "])
async def test_a_program_that_is_moved_between_engines_prints_what_an_unmoved_one_does(
    make: Make, engines: dict[str, DockerEngine], program: str
) -> None:
    """There and back again, into a new container each time: no line differs, none is missing, and none is twice."""
    job = make(*f"python3 {program}0.02".split())
    async with running(job):
        for lines in (50, 150):
            await job.printed(lines)
            await job.move()
        assert await job.end() == 0, job.output
        assert job.output == unmoved(engines["large"], job.folder, f"python3 {program}0".split(), job.spec.env)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One training in PyTorch, or ``--trainings`` of them; only the whole form has it, as it takes another environment."""
    each_training(metafunc, usual=1, first=pytest.mark.slow)


@pytest.mark.timeout(0)  # each wait has a limit
async def test_pytorch_that_is_moved_between_engines_ends_with_the_same_weights(
    make: Make, harness: DockerHarness, engines: dict[str, DockerEngine], style: str, seed: int
) -> None:
    """Each line is that of an unmoved training. PyTorch lies in a folder of the machine that the job cannot write to."""
    folder = packages()
    harness.nodes = {name: Resources(cpu_m=1000, memory_mib=4096) for name in harness.nodes}
    harness.allowed = Allowed.named([folder], harness.state.path)
    train = ("python3", "-c", TRAINING.read_text(), f"--style={style}", "--steps=300")
    job = make(*train, "--pause=0.1", PYTHONPATH=str(folder))
    job.folder, job.spec = folder, msgspec.structs.replace(job.spec, working_dir=str(folder))
    async with running(job):
        await move_at(job, moments(seed, latest=200))
        assert job.output == unmoved(engines["large"], folder, (*train, "--pause=0"), job.spec.env)


@pytest.mark.parametrize(
    "name", ["database", "fork_server", "many_threads", "pool", "shared_memory_block", "tcp_listener", "unlinked_file"]
)
async def test_what_a_process_holds_moves_into_another_container(make: Make, name: str) -> None:
    """After the move, what it has set up before still works: also what it has in ``/tmp`` and ``/dev/shm``."""
    job = make("python3", "cases.py", name)
    async with running(job):
        await job.printed(1)
        await job.move()
        (job.folder / "go").touch()
        assert await job.end() == 0, job.output
        assert job.output == "ready\nOK\n"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        pytest.param("ring", "io-uring", marks=pytest.mark.end_to_end),
        ("own_connection", "connections"),
    ],
)
async def test_a_job_that_cannot_be_saved_in_a_container_runs_on(make: Make, name: str, code: str) -> None:
    """The save is refused with the reason, which is declared, and the job goes on to its own end."""
    job = make("python3", "cases.py", name)
    async with running(job):
        await check_refused(job, code)


async def test_without_the_operator_s_leave_a_job_has_no_keeper_and_says_so(make: Make) -> None:
    """It runs as any other, without capabilities, and its reason names the flag."""
    job = make("python3", "plain.py", "100", "0.05", allowed=False)
    async with running(job):
        report = await job.declared(CheckpointMode.NONE)
        assert report.mode_reason.startswith("no-keeper: ")
        assert "up --system-checkpoints" in report.mode_reason
        assert await job.end() == 0


async def test_an_image_is_restored_only_onto_the_files_that_it_was_saved_from(
    make: Make, engines: dict[str, DockerEngine]
) -> None:
    """A container of another image refuses it before CRIU is tried; the job goes on where it came from."""
    job = make("python3", "plain.py", "200", "0.02")
    for engine in engines.values():
        _make_other_image(engine)
    async with running(job):
        await job.printed(20)
        job.saved = await job.save()
        await job.cluster.stop(JOB, 1, grace_s=10.0)
        job.spec = msgspec.structs.replace(job.spec, image=f"{images.BASE}:other")
        for _ in range(2):  # again: no node that differs is a reason to begin at the first step
            await job.start()
            await until(lambda: job.is_over, within_s=60)
            status = await job.status()
            assert status.phase is ReplicaPhase.GONE
            assert status.reason.startswith("its image was not restored: other-image: ")
        job.spec = msgspec.structs.replace(job.spec, image="")
        await job.start()
        assert await job.end() == 0
        assert job.output == unmoved(engines["large"], job.folder, ("python3", "plain.py", "200", "0"), {})


def _make_other_image(engine: DockerEngine) -> None:
    with contextlib.closing(engine.client()) as client:
        made = client.create_container(images.BASE, ["touch", f"/other-{engine.group}"], network_disabled=True)
        client.start(made)
        client.wait(made)
        client.commit(made, repository=images.BASE, tag="other")
        client.remove_container(made)


def test_no_job_is_moved_to_an_engine_with_another_image_of_the_same_name(
    make: Make, engines: dict[str, DockerEngine], tmp_path: Path
) -> None:
    """The move is refused before the job is saved, and `explain` says why; where the layers are the same, it is not."""
    for engine in engines.values():
        _make_other_image(engine)
    work = make().folder
    with whole_system(work, engines, tmp_path / "state") as system:
        there = {}
        for job, image in (("other", f"{images.BASE}:other"), ("same", images.BASE)):
            system.submit(
                job, "python3", "plain.py", "100000", "0.05", options=(*kept_in(work, cpu="0.1"), "--image", image)
            )
            system.await_event(functools.partial(declared, job=job, mode=CheckpointMode.SYSTEM))
            there[job] = ENGINES[system.job(job)["node"] == ENGINES[0]]
        for node in ENGINES:
            system.await_event(functools.partial(_knows_two_images, node=node))
        refused = system.call("move", "other", "--to", there["other"])
        assert "is none that the job may run on" in refused.stdout + refused.stderr
        assert f"{there['other']} cannot restore it: other-image: " in system.call("explain", "other").stdout
        system.call("move", "same", "--to", there["same"])
        moved = system.await_event(lambda event: event.event if isinstance(event.event, c.MigrationFinished) else None)
        assert (moved.job, moved.target) == ("same", there["same"])
        assert [event for event in system.events() if isinstance(event.event, c.CheckpointSaved)]
        assert not [e for e in system.events() if isinstance(e.event, c.CheckpointSaved) and e.event.job == "other"]


def _knows_two_images(event: Received[c.ClusterEvent], node: str) -> bool | None:
    found = event.event
    if not isinstance(found, c.NodeJoined) or found.node != node or found.keeper is None:
        return None
    return len(found.keeper.images) == 2 or None


@pytest.mark.parametrize(
    ("place", "reason"), [("work/criu", "no-keeper: jobs may change "), ("criu", "no-keeper: job/0/1 ")]
)
async def test_a_keeper_that_cannot_be_started_is_done_without(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, reason: str
) -> None:
    """Its programs are where jobs could change them, or the engine cannot run them: the job runs on and says so."""
    job = make("python3", "plain.py", "20", "0.05")
    programs = tmp_path / place
    (programs / "root/usr/bin").mkdir(parents=True)
    for name in ("loader", "root/usr/bin/python3"):
        (programs / name).touch()
    monkeypatch.setenv(HOME, str(programs))
    async with running(job):
        report = await job.declared(CheckpointMode.NONE)
        assert report.mode_reason.startswith(reason)
        assert await job.end() == 0


def test_doctor_says_between_which_engines_jobs_can_be_moved(
    make: Make, engines: dict[str, DockerEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It moves a process on each engine and from one to the next, and leaves nothing behind."""
    monkeypatch.chdir(make().folder)
    before = sorted(Path.cwd().iterdir())
    done = CliRunner().invoke(
        main, ["doctor", "--json", "--cluster", f"docker={','.join(e.url for e in engines.values())}"]
    )
    assert done.exit_code == 0, done.output
    assert [(one["health"], one["found"]) for one in json.loads(done.stdout)] == [("ok", "")] * 3
    assert sorted(Path.cwd().iterdir()) == before


RIGHTS = """
import json, os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
seen = {name: status[name].strip() for name in ("CapPrm", "CapBnd", "CapAmb", "NoNewPrivs", "Uid", "Groups")}
folders = [os.access(each, os.R_OK) for each in ("/steepest/control", "/steepest/checkpoints", "/proc/1/mem")]
env = {name: value for name, value in os.environ.items() if name in ("LD_PRELOAD", "HOME", "STEEPEST_CONTROL")}
print(json.dumps({**seen, "folders": folders, "env": env}), flush=True)
"""


@pytest.mark.end_to_end
async def test_a_kept_job_has_no_rights_of_its_keeper(make: Make, harness: DockerHarness) -> None:
    """It has no capability and cannot get one, cannot write what is restored, and its variables change no keeper."""
    job = make("python3", "-c", RIGHTS, LD_PRELOAD="/no/such.so")
    async with running(job):
        await until(lambda: job.is_over or bool(harness.containers("large")), within_s=60)
        with harness.client_of(JOB) as (client, name):
            host = client.inspect_container(name)["HostConfig"]
        assert not host["Privileged"]
        assert sorted(host["CapAdd"]) == ["CHOWN", "SETGID", "SETPCAP", "SETUID", "SYS_ADMIN", "SYS_PTRACE"]
        assert await job.end() == 0
        seen = json.loads(job.output.splitlines()[-1])
    assert {seen[name] for name in ("CapPrm", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (seen["NoNewPrivs"], seen["Groups"], seen["Uid"].split()) == ("1", "", ["65534"] * 4)
    assert seen["folders"] == [False] * 3
    assert seen["env"] == {"LD_PRELOAD": "/no/such.so", "HOME": "/nonexistent"}


@contextlib.contextmanager
def whole_system(work: Path, engines: dict[str, DockerEngine], state: Path) -> Iterator[RunningSystem]:
    """A system over two engines, whose jobs may have keepers and a folder."""
    urls = ",".join(engine.url for engine in engines.values())
    where = ("--cluster", f"docker={urls}", "--node", "large=1", "--node", "small=1", "--folder", str(work))
    system = RunningSystem(state, *where, "--system-checkpoints", "--heartbeat", "200ms", env=ENV)
    try:
        system.start()
        yield system
    finally:
        system.end()


def kept_in(work: Path, cpu: str = "0.2") -> tuple[str, ...]:
    """Options of a job with a keeper in that folder."""
    return ("--checkpoint", "system", "--cpu", cpu, "--workdir", str(work))


def test_a_job_is_suspended_and_moved_under_a_whole_system(
    make: Make, engines: dict[str, DockerEngine], tmp_path: Path
) -> None:
    """No step is lost or done twice, and `explain` says why another one cannot be moved; the log's invariants hold."""
    work = make().folder
    options = kept_in(work)
    with whole_system(work, engines, tmp_path / "state") as system:
        system.submit("ring", "python3", "cases.py", "ring", options=options)
        system.submit("job", "python3", "unchanged.py", "--steps=600", "--pause=0.02", options=options)
        system.await_event(lambda event: declared(event, "job", CheckpointMode.SYSTEM))
        reason = system.await_event(lambda event: declared(event, "ring", CheckpointMode.NONE))
        assert reason.startswith("io-uring: ")
        assert reason in system.call("explain", "ring").stdout
        system.call("suspend", "job")
        suspended = system.await_event(lambda event: event.event if isinstance(event.event, c.JobSuspended) else None)
        assert suspended.steps_lost == 0
        system.call("release", "job")
        (work / "go").touch()
        assert system.await_end("ring").outcome is c.Outcome.FINISHED
        assert system.await_end("job").outcome is c.Outcome.FINISHED
        folder = AdapterFolder(system.state / "cluster")
        output = "".join(one.output.read_text() for one in folder.printed(JOB))
        assert output == unmoved(engines["large"], work, ("python3", "unchanged.py", "--steps=600"), ENV)
        assert system.breaches() == []


def declared(event: Received[c.ClusterEvent], job: str, mode: CheckpointMode) -> str | None:
    """Why, or a dash, where this event declares the mode of that job."""
    found = event.event
    if not isinstance(found, c.CheckpointModeDeclared) or (found.job, found.mode) != (job, mode):
        return None
    return found.reason or "-"
