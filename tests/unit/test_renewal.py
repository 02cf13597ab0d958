"""A process takes up pools that its installation gets while it runs, and ends with the request to stop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from steepest.app.compose import Composition, composed
from steepest.app.installation import open_log
from steepest.app.pool_changes import apply_pools
from steepest.app.renewal import run_renewed
from steepest.app.settings.reading import read_settings
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import Installation, NodeSpec, PoolSpec, StateFolder
from steepest.clock import SystemClock
from steepest.events.common import Resources
from steepest.runtime.recovery.log_identity import open_partitions
from steepest.runtime.service import Service

VISION = PoolSpec(name="vision", nodes=(NodeSpec("v1", Resources(1000)),))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A new installation of one pool, its log in files."""
    folder = StateFolder(tmp_path / "state")
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1000)),)))
    return read_settings({"state_dir": folder.root})


async def open_in_files(settings: Settings, installation: Installation) -> None:
    """Give every pool its partition, as the one who changed the description did."""
    log = open_log(settings, installation)
    await open_partitions(log, installation.layout, SystemClock())
    await log.close()


class Runs:
    """The compositions that run one after the other."""

    def __init__(self, settings: Settings) -> None:
        self.pools: asyncio.Queue[list[str]] = asyncio.Queue()
        self.running = 0
        self.renewed = 0
        self.stop = asyncio.Event()
        self._settings = settings

    async def all(self) -> None:
        """Run them until ``stop`` is set."""
        service = Service(name="nothing")
        await run_renewed(self._settings, self.stop, lambda: composed(self._settings, [lambda _: service]), self._run)

    async def _run(self, process: Composition, ended: asyncio.Event) -> None:
        self.running += 1
        assert self.running == 1
        await self.pools.put(sorted(process.runtime.pools))
        await process.runtime.run(ended)
        self.running -= 1
        self.renewed += not self.stop.is_set()


async def test_pools_are_taken_up_while_a_process_runs(settings: Settings) -> None:
    """What ran has ended before the next is composed, which has the new pool; a second `apply` renews nothing."""
    runs = Runs(settings)
    running = asyncio.create_task(runs.all())
    before = await runs.pools.get()
    await apply_pools(settings, [VISION])
    after = await runs.pools.get()
    await apply_pools(settings, [VISION])
    runs.stop.set()
    await running

    assert (before, after) == (["default"], ["default", "vision"])
    assert runs.renewed == 1


@pytest.mark.parametrize(
    ("first", "second", "opened"),
    [
        pytest.param("default", "vision", False, id="its partition is not there: it would wait, and leave the others"),
        pytest.param("vision", "default", True, id="it stands where another pool stood, whose log it would get"),
    ],
)
async def test_a_pool_without_a_log_of_its_own_is_not_taken_up(
    first: str,
    second: str,
    opened: bool,  # noqa: FBT001 - a case
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What runs goes on."""
    looked = asyncio.Event()
    read = Settings.pools.fget  # type: ignore[attr-defined]  # a property is an object of its class

    def counted(self: Settings) -> tuple[str, ...]:
        found: tuple[str, ...] = read(self)
        if "vision" in found:
            looked.set()
        return found

    runs = Runs(settings)
    running = asyncio.create_task(runs.all())
    await runs.pools.get()
    monkeypatch.setattr(Settings, "pools", property(counted))
    node = NodeSpec("m1", Resources(1000))
    installation = Installation(pool=first, nodes=(node,), pools=(PoolSpec(name=second, nodes=(node,)),))
    if opened:
        await open_in_files(settings, installation)
    settings.folder.create(installation)
    for _ in range(2):
        looked.clear()
        await looked.wait()
    runs.stop.set()
    await running

    assert runs.renewed == 0
