"""SIGKILL to each process that takes part in a save or a restore: no job is lost, and none is charged for it."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.harness.kept_job import JOB, PATIENCE_S, KeptJob, kept, training, unmoved
from tests.harness.processes import with_command_lines
from tests.harness.waiting import until

from steepest.cluster import keepers
from steepest.cluster.port import ReplicaPhase
from steepest.errors import RefusedError
from steepest.events.common import CheckpointMode

STEPS = 500
LATEST_S = 0.3
"""A save takes about as long on an idle machine."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``--kills`` at random moments of each kind; every form of a run has the first one."""
    if "seed" in metafunc.fixturenames:
        first = pytest.param(0, marks=pytest.mark.end_to_end)
        metafunc.parametrize("seed", [first, *range(1, metafunc.config.getoption("kills"))])


def processes(state: Path, words: tuple[str, ...]) -> list[psutil.Process]:
    """The processes of a job's keeper whose command has these words."""
    return [
        process
        for process, line in with_command_lines()
        if str(state) in " ".join(line) and all(any(_is(each, word) for each in line) for word in words)
    ]


def _is(argument: str, word: str) -> bool:
    return argument == word or argument.endswith(f"/{word}")


@contextlib.contextmanager
def killed(state: Path, words: tuple[str, ...], delay_s: float) -> Iterator[None]:
    """Within the block, the first process with these words is killed, that long after it was seen."""
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.002):
            if found := processes(state, words):
                time.sleep(delay_s)
                for process in found:
                    with contextlib.suppress(psutil.Error):
                        process.kill()
                return

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def digest(output: str) -> str:
    """The last line: the digest of the weights."""
    return output.strip().splitlines()[-1]


async def test_a_save_whose_criu_or_compressor_is_killed_costs_nothing(tmp_path: Path, seed: int) -> None:
    """The job trains on and is saved at the next request; one that does not survive is gone, and not charged."""
    state = tmp_path / "state"
    words = ("zstd", "-1") if seed % 4 == 3 else ("criu", "dump")
    async with kept(state, training(STEPS), CheckpointMode.AUTO) as job:
        await job.printed(50)
        with (
            killed(state, words, random.Random(seed).random() * LATEST_S),
            contextlib.suppress(RefusedError),
        ):
            job.saved = await job.save()
        if job.saved is not None:
            await job.cluster.release(JOB, 1, request="r1")
            job.saved = None
        if not (await _gone_or(job, 100)):
            job.saved = await job.save("again")
            await job.cluster.stop(JOB, 1, grace_s=10.0)
            await job.start()
            assert await job.end() == 0
            assert job.output == unmoved(training(STEPS, 0.0))


async def _gone_or(job: KeptJob, lines: int) -> bool:
    """Whether it did not survive; else it has printed so many lines."""
    await job.printed(lines)
    status = await job.status()
    if status.has_ended:
        assert status.phase is ReplicaPhase.GONE, status
    return status.has_ended


async def test_a_keeper_that_is_killed_takes_its_job_along_uncharged(tmp_path: Path, seed: int) -> None:
    """Its end is its place's, and it continues from the newest complete image to the end of an unmoved training."""
    state = tmp_path / "state"
    async with kept(state, training(STEPS), CheckpointMode.AUTO) as job:
        await job.printed(50)
        job.saved = await job.save("first")
        await job.cluster.release(JOB, 1, request="first")
        await job.printed(100)
        keeper = _keeper(state)
        timer = threading.Timer(random.Random(seed).random() * LATEST_S, keeper.kill)
        timer.start()
        with contextlib.suppress(RefusedError):
            job.saved = await job.save("second")
        timer.join()
        ended = await job.cluster.stop(JOB, 1, grace_s=10.0)
        assert ended.exit_status in {None, 85}
        job.saved = ended.checkpoint
        await job.start()
        assert await job.end() == 0
        assert digest(job.output) == digest(unmoved(training(STEPS, 0.0)))


def _keeper(state: Path) -> psutil.Process:
    """Process 1 of the job's namespace: the child of the one that waits for it."""
    outer = next(each for each in processes(state, ("steepest/keeper", "keeping.json")) if each.children())
    return outer if _is_first(outer) else next(each for each in outer.children() if _is_first(each))


def _is_first(process: psutil.Process) -> bool:
    status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(line for line in status if line.startswith("NSpid:")).split()[-1] == "1"


async def test_a_restore_that_is_killed_is_tried_again(tmp_path: Path, seed: int) -> None:
    """Nothing is left of it, the end is its place's, and the next incarnation continues from the same image."""
    state = tmp_path / "state"
    words = (("criu", "restore"), ("criu", "restore"), ("zstd", "-d"), ("steepest/keeper", "keeping.json"))[seed % 4]
    async with kept(state, training(STEPS), CheckpointMode.AUTO) as job:
        await job.printed(100)
        job.saved = await job.save()
        await job.cluster.stop(JOB, 1, grace_s=10.0)
        with killed(state, words, random.Random(seed).random() * LATEST_S / 3):
            await job.start()
            with contextlib.suppress(RefusedError):
                await job.cluster.wait_for_step(JOB, 2, at_least=job.saved.step, timeout_s=60.0)
        await until(lambda: job.is_over, within_s=PATIENCE_S)
        if (await job.status()).phase is ReplicaPhase.GONE:
            await job.start()
        assert await job.end() == 0
        assert digest(job.output) == digest(unmoved(training(STEPS, 0.0)))


@pytest.mark.end_to_end
async def test_a_job_whose_node_dies_goes_on_from_its_newest_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has asked for it: a job that its user wants kept is saved from time to time while it trains on."""
    monkeypatch.setattr(keepers, "SNAPSHOT_S", 0.5)
    state = tmp_path / "state"
    async with kept(state, training(900, 0.02)) as job:
        images = state / "jobs/job/checkpoints"
        await until(lambda: any(each.name.startswith("step-") for each in images.iterdir()), within_s=PATIENCE_S)
        _keeper(state).kill()
        ended = await job.cluster.stop(JOB, 1, grace_s=10.0)
        assert (ended.exit_status, ended.checkpoint is None) == (None, False)
        job.saved = ended.checkpoint
        await job.start()
        report = await job.declared(CheckpointMode.SYSTEM)
        assert report.mode_reason == ""
        assert await job.end() == 0
        assert digest(job.output) == digest(unmoved(training(900, 0.0)))


@pytest.mark.end_to_end
async def test_a_job_that_changes_a_file_in_place_has_no_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image would not match the file. It trains on, and is moved as any other."""
    monkeypatch.setattr(keepers, "SNAPSHOT_S", 0.2)
    state = tmp_path / "state"
    words = f"exec 3<> {tmp_path}/held; exec {' '.join(training(900, 0.02))}"
    async with kept(state, ("bash", "-c", words)) as job:
        await job.declared(CheckpointMode.SYSTEM)
        lines = job.output.count("\n")
        await job.printed(lines + 100)
        assert [each.name for each in (state / "jobs/job/checkpoints").iterdir() if each.name.startswith("step-")] == []
        await job.move()
        assert await job.end() == 0
        assert job.output == unmoved(training(900, 0.0))


@pytest.mark.end_to_end
async def test_an_adapter_that_dies_while_a_job_is_held_costs_a_hold(tmp_path: Path) -> None:
    """Without an answer from the adapter the job trains on after its hold, under the next adapter."""
    async with kept(tmp_path / "state", training(STEPS), CheckpointMode.AUTO) as job:
        await job.printed(50)
        await job.save("held", hold_s=1.0)
        await job.cluster.close()
        job.open()
        await job.printed(100)
        await job.move()
        assert await job.end() == 0
        assert job.output == unmoved(training(STEPS, 0.0))


@pytest.mark.end_to_end
async def test_a_stop_that_comes_after_the_hold_loses_nothing(tmp_path: Path) -> None:
    """As from a service that takes over the move of one that was killed: the job has trained on, and is saved again."""
    async with kept(tmp_path / "state", training(STEPS), CheckpointMode.AUTO) as job:
        await job.printed(50)
        first = await job.save("held", hold_s=0.5)
        await job.printed(job.output.count("\n") + 100)
        assert await job.save("held") == first
        ended = await job.cluster.stop(JOB, 1, grace_s=60.0)
        assert ended.exit_status == 85
        job.saved = ended.checkpoint
        assert job.saved not in {None, first}
        await job.start()
        assert await job.end() == 0
        assert job.output == unmoved(training(STEPS, 0.0))


Change = Callable[[Path], None]


def _flip(image: Path) -> None:
    content = bytearray((image / "image.zst").read_bytes())
    content[len(content) // 2] ^= 1
    (image / "image.zst").write_bytes(content)


def _cut(image: Path) -> None:
    os.truncate(image / "image.zst", 1000)


def _lose(image: Path) -> None:
    (image / "keeper.json").unlink()
    (image / "image.zst").unlink()
    (image / "manifest.json").unlink()
    image.rmdir()


@pytest.mark.end_to_end
@pytest.mark.parametrize("damage", [_flip, _cut, _lose])
async def test_a_damaged_image_is_not_restored_but_the_one_before_it(tmp_path: Path, damage: Change) -> None:
    """The job continues from its older image, and says so; without one it begins again, and says that."""
    state = tmp_path / "state"
    async with kept(state, training(STEPS), CheckpointMode.AUTO) as job:
        await job.printed(50)
        first = await job.save("first")
        await job.cluster.release(JOB, 1, request="first")
        await job.printed(100)
        job.saved = await job.save("second")
        await job.cluster.stop(JOB, 1, grace_s=10.0)
        damage(state / "jobs/job/checkpoints" / job.saved.name)
        await job.start()
        report = await job.declared(CheckpointMode.SYSTEM)
        assert report.mode_reason.startswith("restored-older: damaged: ")
        assert (await job.status()).restored_step == first.step
        assert await job.end() == 0
        assert digest(job.output) == digest(unmoved(training(STEPS, 0.0)))


@pytest.mark.end_to_end
async def test_a_job_whose_files_have_changed_goes_back_and_then_begins_again(tmp_path: Path) -> None:
    """A file that a process has open and that has another size is found. The second try begins at the first step."""
    state = tmp_path / "state"
    held = tmp_path / "held"
    held.write_text("as it was")
    words = f"exec 3< {held}; exec {' '.join(training(STEPS))}"
    async with kept(state, ("bash", "-c", words), CheckpointMode.AUTO) as job:
        await job.printed(50)
        job.saved = await job.save()
        await job.cluster.stop(JOB, 1, grace_s=10.0)
        held.write_text("it has changed")
        await job.start()
        ended = await _ended(job)
        assert ended.startswith("its image was not restored: changed-file")
        await job.start()
        report = await job.declared(CheckpointMode.NONE)
        assert report.mode_reason.startswith("restarted-from-zero: changed-file")
        assert await job.end() == 0
        assert digest(job.output) == digest(unmoved(training(STEPS, 0.0)))


async def _ended(job: KeptJob) -> str:
    with pytest.raises(RefusedError):
        await job.cluster.wait_for_step(JOB, job.incarnation, at_least=1, timeout_s=60.0)
    status = await job.status()
    assert status.phase is ReplicaPhase.GONE
    return status.reason
