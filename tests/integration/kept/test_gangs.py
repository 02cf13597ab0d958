"""Unmodified distributed trainings whose replicas lie on one node are saved and moved as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from pathlib import Path

import pytest
from tests.harness.kept_gang import CHIEF, WORLD, kept_gang, unmoved
from tests.integration.kept.test_kills import LATEST_S, killed

from steepest.cluster.port import ReplicaPhase
from steepest.errors import RefusedError

STEPS = 150


def training(steps: int, pause_s: float = 0.01) -> tuple[str, ...]:
    """A data-parallel training in NumPy."""
    return (sys.executable, str(Path(__file__).with_name("data_parallel.py")), str(steps), str(pause_s))


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.end_to_end), *range(1, 5)])
async def test_a_gang_that_is_moved_ends_as_one_that_is_not(tmp_path: Path, seed: int) -> None:
    """Each replica prints what it prints unmoved, byte for byte: no step is lost, and no byte between two of them."""
    moments = sorted(random.Random(seed).sample(range(1, STEPS - 30), 2))
    async with kept_gang(tmp_path / "state", training(STEPS)) as gang:
        for moment in moments:
            await gang.printed(moment)
            await gang.move()
        assert [end.exit_status for end in await gang.ended()] == [0] * WORLD
        assert gang.outputs == await unmoved(tmp_path, training(STEPS, 0.0))


@pytest.mark.end_to_end
async def test_a_gang_that_is_released_continues(tmp_path: Path) -> None:
    """Its stop does not come: all replicas train on, and are saved again."""
    async with kept_gang(tmp_path / "state", training(STEPS)) as gang:
        await gang.printed(20)
        await gang.save("released")
        await gang.cluster.release(CHIEF, 1, request="released")
        await gang.printed(50)
        await gang.move()
        assert [end.exit_status for end in await gang.ended()] == [0] * WORLD
        assert gang.outputs == await unmoved(tmp_path, training(STEPS, 0.0))


@pytest.mark.end_to_end
async def test_a_gang_begins_again_as_a_whole_where_one_replica_is_not_restored(tmp_path: Path) -> None:
    """The image of one replica is damaged: none continues from it. All use the older one, and that is said."""
    async with kept_gang(tmp_path / "state", training(STEPS)) as gang:
        await gang.printed(10)
        first = await gang.save("first")
        await gang.cluster.release(CHIEF, 1, request="first")
        await gang.printed(40)
        gang.saved = await gang.save("second")
        await gang.stop()
        image = tmp_path / "state/jobs/job/checkpoints" / gang.saved.name / "image-2.zst"
        image.write_bytes(image.read_bytes()[:-1] + b"?")
        await gang.resume()
        assert (await gang.statuses())[0].restored_step == first.step
        assert [end.exit_status for end in await gang.ended()] == [0] * WORLD
        assert _digests(gang.outputs) == _digests(await unmoved(tmp_path, training(STEPS, 0.0)))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``--kills`` at random moments of each kind; every form of a run has the first one."""
    if "kill" in metafunc.fixturenames:
        first = pytest.param(0, marks=pytest.mark.end_to_end)
        metafunc.parametrize("kill", [first, *range(1, metafunc.config.getoption("kills"))])


async def test_a_kill_in_a_save_loses_nothing(tmp_path: Path, kill: int) -> None:
    """CRIU or a keeper of any replica dies: all replicas train on to the same bytes, or continue from a complete image."""
    state = tmp_path / "state"
    words = (("criu", "dump"), _keeper(0), _keeper(2))[kill % 3]
    async with kept_gang(state, training(STEPS)) as gang:
        await gang.printed(10)
        gang.saved = await gang.save("first")
        await gang.cluster.release(CHIEF, 1, request="first")
        await gang.printed(40)
        saving = asyncio.create_task(gang.save("second"))
        await asyncio.sleep(random.Random(kill).random())
        with killed(state, words, 0.0), contextlib.suppress(RefusedError):
            gang.saved = await saving
        await gang.stop()
        await gang.resume()
        assert [end.exit_status for end in await gang.ended()] == [0] * WORLD
        assert _digests(gang.outputs) == _digests(await unmoved(tmp_path, training(STEPS, 0.0)))


def _keeper(rank: int) -> tuple[str, ...]:
    return "steepest/keeper", f"{rank}/1/keeping.json"


def _digests(outputs: list[str]) -> list[str]:
    """The last line of each replica: the digest of its weights."""
    return [output.splitlines()[-1] for output in outputs]


async def test_a_kill_in_a_restore_restores_none(tmp_path: Path, kill: int) -> None:
    """No replica continues without the others: none fails, and the next incarnation continues from the same image."""
    state = tmp_path / "state"
    words = (("criu", "restore"), ("steepest/keeper", "1/2/keeping.json"), ("zstd", "-d"))[kill % 3]
    async with kept_gang(state, training(STEPS)) as gang:
        await gang.printed(40)
        gang.saved = await gang.save()
        await gang.stop()
        lines = [output.count("\n") for output in gang.outputs]
        with killed(state, words, random.Random(kill).random() * LATEST_S / 3):
            await gang.start()
            with contextlib.suppress(RefusedError):
                await gang.cluster.wait_for_step(CHIEF, 2, at_least=0, timeout_s=30.0)
        await gang.stop()
        phases = [status.phase for status in await gang.statuses()]
        if phases == [ReplicaPhase.GONE] * WORLD:
            assert [output.count("\n") for output in gang.outputs] == lines
        await gang.resume()
        await gang.ended()
        assert _digests(gang.outputs) == _digests(await unmoved(tmp_path, training(STEPS, 0.0)))
