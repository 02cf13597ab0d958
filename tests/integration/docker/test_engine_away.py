"""An engine that is killed and started again: its containers live on, nothing is assumed of them, and nothing runs twice."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.harness.contracts.cluster_harness import JOB, PATIENCE_S, ClusterFixture
from tests.harness.docker_harness import SIZES_M, DockerHarness, why_not
from tests.harness.kernel_group import KernelGroup
from tests.harness.system.running_system import RunningSystem
from tests.harness.waiting import until

from steepest.cluster.port import ReplicaPhase
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events import cluster as c
from steepest_lab.docker_engines import images
from steepest_lab.docker_engines.engine_daemon import DockerEngine, running_engine

# The client leaves a socket open where no server listens, which is what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
SCRIPT = Path(__file__).parents[1] / "exclusive_training.py"


@pytest.fixture(autouse=True)
def leave_no_socket() -> Iterator[None]:
    """Collect the sockets that the client left open before the next test."""
    yield
    gc.collect()


@pytest.fixture
def engine(engines: dict[str, DockerEngine], stage: ClusterFixture) -> Iterator[DockerEngine]:
    """The engine of the node ``here``, which runs again after the test."""
    yield engines[stage.here]
    engines[stage.here].start()


async def test_containers_outlive_their_engine(
    stage: ClusterFixture, harness: DockerHarness, engine: DockerEngine
) -> None:
    """While the engine is away nothing is known and nothing is started elsewhere; afterwards the same process trains on."""
    await stage.train()
    engine.kill()
    with pytest.raises(UncertainError):
        await stage.cluster.lookup(JOB)
    with pytest.raises(RefusedError) as caught:
        await stage.cluster.start(JOB, 2, stage.there, harness.job(), None)
    assert caught.value.code == "still-running"
    engine.start()
    status = await stage.cluster.lookup(JOB)

    assert status is not None
    assert (status.incarnation, status.phase) == (1, ReplicaPhase.RUNNING)
    assert await stage.reach((status.step or 0) + 5)
    await stage.report(lambda found: found.incarnation == 1)  # its heartbeats come again
    stopped = await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
    assert stopped.exit_status == 85
    assert stage.output().count("begins") == 1


async def test_waits_do_not_need_the_engine(
    stage: ClusterFixture, harness: DockerHarness, engine: DockerEngine
) -> None:
    """A checkpoint and a step that are waited for while the engine is away arrive: the job reports them in its folder."""
    await stage.train("--save-s", "1")
    folder = harness.state.incarnation(JOB, 1)
    asking = asyncio.create_task(stage.ask())
    await until(folder.request.exists)
    await asyncio.to_thread(engine.kill)
    saved = await asking
    await stage.cluster.release(JOB, 1, request="r1")
    reached = await stage.reach(saved.step + 5)
    await asyncio.to_thread(engine.start)

    assert reached >= saved.step + 5
    assert await stage.phase() == ReplicaPhase.RUNNING


async def test_no_heartbeat_speaks_for_an_engine_that_is_away(stage: ClusterFixture, engine: DockerEngine) -> None:
    """Once the engine is away, only the other node beats; once it is back, both do."""
    async with contextlib.aclosing(stage.cluster.heartbeats()) as beats:  # type: ignore[type-var]
        async for beat in beats:
            if beat.node == stage.here:
                break
        engine.kill()
        others = 0
        async for beat in beats:
            others = 0 if beat.node == stage.here else others + 1
            if others == 4:
                break
        engine.start()
        async for beat in beats:
            if beat.node == stage.here:
                break


async def test_an_end_while_the_engine_was_away_is_known_afterwards(
    stage: ClusterFixture, harness: DockerHarness, engine: DockerEngine
) -> None:
    """The exit status of a job that ended without an engine is not lost, and what it printed is there once."""
    await stage.cluster.start(JOB, 1, stage.here, harness.job("--steps", "100", "--exit", "3"), None)
    await stage.reach(1)
    engine.kill()
    reports = harness.state.incarnation(JOB, 1).reports
    await until(lambda: '"step": 100,' in reports.read_text())
    engine.start()

    assert await stage.end() == (ReplicaPhase.EXITED, 3)
    assert stage.output().split() == ["begins", JOB.job, "1"]


async def test_an_engine_killed_while_limits_are_set(
    stage: ClusterFixture, harness: DockerHarness, engine: DockerEngine
) -> None:
    """Each limit is set, or fails saying whether it may have been; asked again afterwards it is set; the job trains on."""
    await stage.train()
    group = KernelGroup(harness.first_process(JOB))
    failures: list[ClusterError] = []

    async def limit_on() -> None:
        for number in range(2000):
            try:
                await stage.cluster.limit(JOB, 1, 100 + number % 200)
            except ClusterError as error:
                failures.append(error)
                return

    limiting = asyncio.create_task(limit_on())
    await asyncio.sleep(0.2)
    await asyncio.to_thread(engine.kill)
    await limiting
    await asyncio.to_thread(engine.start)
    await stage.cluster.limit(JOB, 1, 250)

    assert failures
    assert group.cpu_m() == 250
    status = await stage.cluster.lookup(JOB)
    assert status is not None
    assert await stage.reach((status.step or 0) + 5)
    assert len(harness.containers(stage.here)) == 1


@pytest.fixture
def system(tmp_path: Path, engines: dict[str, DockerEngine]) -> Iterator[RunningSystem]:
    """The whole system on the engines; with a high α every job soon counts as converged, and goes to the idle node."""
    for engine in engines.values():
        with contextlib.closing(engine.client()) as client:
            images.provide(client, images.default_folder(), demo=True)
    sizes = ("large=800m", "small=100m")  # so small a node that all jobs start on the other one
    running = RunningSystem(
        tmp_path / "state",
        *("--folder", str(tmp_path)),
        "--cluster",
        f"docker={','.join(engines[node].url for node in SIZES_M)}",
        "--image",
        images.DEMO,
        *(option for size in sizes for option in ("--node", size)),
        *("--interval", "500ms", "--heartbeat", "300ms", "--policy", "specon", "--alpha", "0.9"),
    )
    running.start()
    yield running
    for engine in engines.values():
        engine.start()
    running.end()


def begins_a_move(event: c.ClusterEvent, step: c.Step) -> bool:
    """Whether this step of a move begins; a first placement has a start as well."""
    first_start = step is c.Step.START and isinstance(event, c.StepBegun) and event.incarnation == 1
    return isinstance(event, c.StepBegun) and event.step is step and not first_start


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", [pytest.param(None, marks=pytest.mark.end_to_end), c.Step.STOP, c.Step.START])
def test_a_move_between_engines_survives_their_death(
    system: RunningSystem, engines: dict[str, DockerEngine], tmp_path: Path, step: c.Step | None
) -> None:
    """An engine that is killed during a move loses no job and no step, and no job runs twice."""
    shutil.copy(SCRIPT, tmp_path / "training.py")
    for name in ("one", "two", "three"):
        options = ("--workdir", str(tmp_path))
        system.submit(name, "python3", "training.py", str(tmp_path), options=options)
    if step is not None:
        system.await_event(lambda found: found.event if begins_a_move(found.event, step) else None)
        for engine in engines.values():
            engine.kill()
        for engine in engines.values():
            engine.start()
    moved = system.await_event(lambda found: found.event if isinstance(found.event, c.MigrationFinished) else None)
    (tmp_path / "enough").touch()

    outcomes = {name: system.await_end(name).outcome for name in ("one", "two", "three")}
    assert outcomes == dict.fromkeys(outcomes, c.Outcome.FINISHED)
    assert (moved.job in outcomes, moved.steps_lost) == (True, 0)
    assert list(tmp_path.glob("*.twice")) == []
    assert system.breaches() == []


WAITS = """
import pathlib, time
while not pathlib.Path("enough").exists():
    time.sleep(0.05)
"""


@pytest.fixture
def stopping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerEngine]:
    """An engine that ends its containers with itself, as engines do unless they are told otherwise."""
    if why := why_not():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("stopping")
    with running_engine(folder, cpu_m=800, options=("--live-restore=false",)) as made:
        with contextlib.closing(made.client()) as client:
            images.provide(client, images.default_folder())
        yield made


@pytest.mark.timeout(300)
def test_a_job_whose_engine_is_stopped_goes_on(stopping: DockerEngine, tmp_path: Path) -> None:
    """A machine that shuts down stops its engine, and that ends the job: it waits, goes on, and its retries are unused."""
    options = ("--cluster", f"docker={stopping.url}", "--image", images.BASE, "--folder", str(tmp_path))
    system = RunningSystem(tmp_path / "state", *options)
    system.start()
    try:
        system.submit("plain", "python3", "-c", WAITS, options=("--workdir", str(tmp_path)))
        system.await_event(lambda found: found.event if isinstance(found.event, c.JobPlaced) else None)
        daemon = psutil.Process(stopping.pid)
        daemon.terminate()
        daemon.wait(PATIENCE_S)
        stopping.start()
        retry = system.await_event(lambda found: found.event if isinstance(found.event, c.RetryPlanned) else None)
        (tmp_path / "enough").touch()

        assert system.await_end("plain").outcome is c.Outcome.FINISHED
        assert (retry.charged, "its engine was stopped" in retry.reason) == (False, True)
        assert system.breaches() == []
    finally:
        system.end()


@pytest.mark.timeout(300)
def test_a_container_that_its_user_kills_has_failed(
    system: RunningSystem, engines: dict[str, DockerEngine], tmp_path: Path
) -> None:
    """Its engine is there, and saw it."""
    system.submit("plain", "python3", "-c", WAITS, options=("--workdir", str(tmp_path)))
    first = system.await_event(lambda found: found.event if isinstance(found.event, c.JobPlaced) else None)
    with contextlib.closing(engines[first.node].client()) as client:
        (container,) = client.containers(filters={"label": "steepest.job=plain"})
        client.kill(container["Id"], "SIGTERM")
    ended = system.await_end("plain")

    assert (ended.outcome, ended.exit_status) == (c.Outcome.FAILED, -15)
    assert system.breaches() == []
