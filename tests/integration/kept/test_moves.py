"""Unmodified trainings are moved between emulated nodes, and end as if they had never been moved."""

from __future__ import annotations

import platform
import random
import sys
from pathlib import Path

import msgspec
import pytest
from tests.harness.kept_job import JOB, NODES, KeptJob, kept, missing, running, training, unmoved

from steepest.cluster.local import LocalCluster, LocalNode
from steepest.cluster.trial_move import trial_move
from steepest.events.common import CheckpointMode, Resources

STEPS = 400


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.end_to_end), *range(1, 10)])
async def test_a_training_that_is_moved_ends_as_one_that_is_not(tmp_path: Path, seed: int) -> None:
    """Moved at three random moments, a training prints what an unmoved one prints, byte for byte, and no step twice."""
    rng = random.Random(seed)
    command = training(STEPS, seed=seed)
    async with kept(tmp_path / "state", command, CheckpointMode.AUTO) as job:
        for moment in sorted(rng.sample(range(1, STEPS - 50), 3)):
            await job.printed(moment)
            await job.move()
        assert await job.end() == 0
        assert job.output == unmoved(training(STEPS, 0.0, seed))


@pytest.mark.end_to_end
async def test_a_pipeline_of_a_shell_is_moved(tmp_path: Path) -> None:
    """All processes below a job's first one move with it, with the pipes between them."""
    words = " ".join(training(STEPS))
    async with kept(tmp_path / "state", ("bash", "-c", f"{words} | tee {tmp_path}/copy")) as job:
        await job.printed(100)
        await job.move()
        assert await job.end() == 0
        expected = unmoved(training(STEPS, 0.0))
        assert (job.output, (tmp_path / "copy").read_text()) == (expected, expected)


@pytest.mark.end_to_end
async def test_a_released_job_continues_and_can_be_saved_again(tmp_path: Path) -> None:
    """A job whose stop does not come trains on after its release, and after its hold, and loses nothing."""
    async with kept(tmp_path / "state", training(STEPS), CheckpointMode.AUTO) as job:
        await job.printed(50)
        first = await job.save("released")
        await job.cluster.release(JOB, 1, request="released")
        await job.printed(100)
        await job.save("expires", hold_s=0.1)
        await job.printed(150)
        await job.move()
        assert job.saved is not None
        assert job.saved.step > first.step
        assert await job.end() == 0
        assert job.output == unmoved(training(STEPS, 0.0))


TALKING = """
import socket, sys, threading, time
server = socket.create_server(("127.0.0.1", 0))
here = socket.create_connection(server.getsockname())
there = server.accept()[0]
threading.Thread(target=lambda: [there.sendall(there.recv(1)) for _ in range(int(sys.argv[1]))]).start()
for number in range(int(sys.argv[1])):
    here.sendall(b"%d" % (number % 10))
    print(number, here.recv(1), flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.mark.end_to_end
async def test_own_connections_go_on_after_a_save(tmp_path: Path) -> None:
    """CRIU leaves them in repair mode, in which nothing can be received: a job that is released talks on."""
    command = (sys.executable, "-c", TALKING, "200", "0.01")
    async with kept(tmp_path / "state", command, CheckpointMode.AUTO) as job:
        await job.printed(20)
        await job.save("released")
        await job.cluster.release(JOB, 1, request="released")
        await job.printed(60)
        await job.move()
        assert await job.end() == 0
        assert job.output == unmoved((*command[:-1], "0"))


@pytest.mark.end_to_end
async def test_an_explicit_mode_is_tried_once_before_it_is_declared(tmp_path: Path) -> None:
    """`--checkpoint system` declares a job movable after it was saved once; that image is not kept."""
    async with kept(tmp_path / "state", training(2_000)) as job:
        report = await job.declared(CheckpointMode.SYSTEM, CheckpointMode.NONE)
        assert (report.checkpoint_mode, report.mode_reason) == (CheckpointMode.SYSTEM, "")
        assert list((tmp_path / "state/jobs/job/checkpoints").iterdir()) == []


@pytest.mark.end_to_end
async def test_an_upgrade_of_a_library_costs_a_job_nothing(tmp_path: Path) -> None:
    """A library is replaced while the job is away: it goes on with its own one, also after a second move."""
    library = tmp_path / "library.so"
    library.write_bytes(_libm())
    words = (
        f"import ctypes, os, time; library = ctypes.CDLL({str(library)!r}); print('ready', flush=True)\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
        "print(library.ilogb(ctypes.c_double(8.0)))"
    )
    async with kept(tmp_path / "state", (sys.executable, "-c", words), CheckpointMode.AUTO) as job:
        await job.printed(1)
        for more in (b"x" * 10_000, b"x" * 20_000):
            job.saved = await job.save()
            await job.cluster.stop(JOB, job.incarnation, grace_s=10.0)
            newer = tmp_path / "newer"
            newer.write_bytes(_libm() + more)
            newer.replace(library)
            await job.start()
            await job.cluster.wait_for_step(JOB, job.incarnation, at_least=job.saved.step, timeout_s=60.0)
        (tmp_path / "go").touch()
        assert await job.end() == 0
        assert job.output == "ready\n3\n"


def _libm() -> bytes:
    """A library that this process has mapped."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return Path(next(line.split()[-1] for line in maps if "libm.so" in line)).read_bytes()


@pytest.mark.end_to_end
async def test_images_are_for_their_owner_alone(tmp_path: Path) -> None:
    """What holds a job's memory is readable by its owner only."""
    async with kept(tmp_path / "state", training(STEPS), CheckpointMode.AUTO) as job:
        await job.printed(10)
        saved = await job.save()
        image = tmp_path / "state/jobs/job/checkpoints" / saved.name
        assert [path.stat().st_mode & 0o77 for path in (image, image.parent, *image.iterdir())] == [0] * 5


@pytest.mark.end_to_end
async def test_a_job_that_ends_by_itself_keeps_its_exit_status(tmp_path: Path) -> None:
    """A keeper ends as its job does, by a status or by a signal, and the end is the job's own."""
    for words, status in (("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 6)", -6)):
        async with kept(tmp_path / f"state{status}", (sys.executable, "-c", words)) as job:
            assert await job.end() == status


@pytest.mark.end_to_end
async def test_the_stop_of_a_job_that_was_not_saved_is_its_own(tmp_path: Path) -> None:
    """SIGTERM without a request reaches the job itself, which may clean up."""
    words = "import signal, time; signal.signal(15, lambda *_: exit(7)); print('ready', flush=True); time.sleep(600)"
    async with kept(tmp_path / "state", (sys.executable, "-c", words)) as job:
        await job.printed(1)
        assert (await job.cluster.stop(JOB, 1, grace_s=30.0)).exit_status == 7


def keeping_all(state: Path) -> LocalCluster:
    """Nodes on which a job has a keeper whose user says nothing of its checkpoints."""
    nodes = [LocalNode(name, Resources(cpu_m=2000, memory_mib=4096)) for name in NODES]
    return LocalCluster(state, nodes, "pool", heartbeat_s=0.1, keep_all=True)


@pytest.mark.end_to_end
async def test_a_job_whose_user_says_nothing_can_be_moved(tmp_path: Path) -> None:
    """Nothing touches it before a request, and its nodes say what an image needs. One with a terminal has no keeper."""
    if why := missing(tmp_path):
        pytest.skip(why)
    async with running(KeptJob(tmp_path / "state", training(600, 0.02), None, make=keeping_all)) as job:
        await job.declared(CheckpointMode.SYSTEM)
        assert list((tmp_path / "state/jobs/job/checkpoints").iterdir()) == []
        beat = await anext(job.cluster.heartbeats())
        assert beat.keeper is not None
        assert (beat.keeper.unable, beat.keeper.machine) == ("", platform.machine())
        await job.move()
        assert await job.end() == 0
        assert job.output == unmoved(training(600, 0.0))
    terminal = KeptJob(
        tmp_path / "other", (sys.executable, "-c", "import os; print(os.isatty(1))"), None, make=keeping_all
    )
    terminal.spec = msgspec.structs.replace(terminal.spec, tty=True)
    async with running(terminal):
        assert await terminal.end() == 0
        assert terminal.output.strip() == "True"


@pytest.mark.end_to_end
async def test_a_trial_move_shows_whether_nodes_can_keep_jobs(tmp_path: Path) -> None:
    """Where they can, nothing is found and nothing is left; where jobs are throttled by signals, it says that."""
    if why := missing(tmp_path):
        pytest.skip(why)
    nodes = [LocalNode(name, Resources(cpu_m=1000)) for name in ("here", "there")]
    for name, cpu, found in (
        ("able", "auto", ""),
        ("unable", "duty-cycle", "no-keeper: there are no CPU control groups"),
    ):
        cluster = LocalCluster(tmp_path / name, nodes, "pool", heartbeat_s=0.1, cpu=cpu)  # type: ignore[arg-type]
        try:
            why = await trial_move(cluster, "here", "there")
            assert why.startswith(found) if found else why == ""
            assert list((tmp_path / name / "jobs").iterdir()) == []
        finally:
            await cluster.close()
