"""How much of a pool's log no service needs: never more than the snapshots of all of them stand for."""

from __future__ import annotations

import pytest
from tests.harness.memory_log import MemorySnapshots
from tests.harness.system.fake_cluster import FakeCluster
from tests.harness.system.rig import AT, POOL, Rig, RigProcess, context_on
from tests.harness.waiting import until

from steepest.app.installed_services import installed_services
from steepest.errors import InputError
from steepest.events.loss import JobUnwatched
from steepest.runtime.decode import new_record
from steepest.runtime.recovery.trimming import needed_from
from steepest.runtime.service import Service

NAMES = ("categorizer", "placer", "worker-monitor")


def services(rig: Rig) -> list[Service]:
    """Those that the tests run, as ``steepest topics trim`` builds them."""
    cluster = FakeCluster(rig.nodes, POOL, rig.clock)
    context = context_on(rig.folder, rig.log, cluster, rig.clock)
    return [installed_services()[name](context) for name in NAMES]


def store(rig: Rig, name: str) -> MemorySnapshots:
    """Where a service keeps its snapshots."""
    return rig.snapshots.setdefault(name, MemorySnapshots())


async def needed(rig: Rig) -> int:
    """What the services need of the pool's log."""
    return await needed_from(rig.log, AT, rig.layout, services(rig), lambda name: store(rig, name))


async def run(rig: Rig, *names: str) -> dict[str, RigProcess]:
    """Run services until each has read everything."""
    processes = {name: rig.start(name, snapshots=store(rig, name)) for name in names}
    await until(lambda: all(one.runtime.health.is_ready() for one in processes.values()))
    return processes


async def stop(processes: dict[str, RigProcess]) -> None:
    """Let each keep its snapshots."""
    for process in processes.values():
        await process.stop()


async def test_a_service_without_a_snapshot_needs_everything(rig: Rig) -> None:
    """It is named, and nothing may be removed until it has kept one."""
    for last in NAMES:
        rig.snapshots.clear()
        await stop(await run(rig, *(name for name in NAMES if name != last)))
        with pytest.raises(InputError, match=last) as caught:
            await needed(rig)
        assert caught.value.code == "no-snapshot"


async def test_a_service_that_was_ready_leaves_a_snapshot_and_one_that_was_not_may_leave_none(rig: Rig) -> None:
    """What is stopped before it has read its partitions has nothing to keep: readiness comes before a stop."""
    await stop(await run(rig, "placer", "worker-monitor"))
    await stop({"categorizer": rig.start("categorizer", snapshots=store(rig, "categorizer"))})
    with pytest.raises(InputError, match="categorizer") as caught:
        await needed(rig)
    assert "/readyz" in caught.value.hint
    await stop(await run(rig, "categorizer"))
    await needed(rig)


async def test_a_snapshot_of_another_logic_is_none(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release that trims is the one that must be able to start."""
    await stop(await run(rig, *NAMES))
    await needed(rig)
    (placer,) = (kind for one in services(rig) for kind in one.cluster_deciders if kind.name == "placer")
    monkeypatch.setattr(placer, "logic", placer.logic + 1)
    with pytest.raises(InputError, match="placer"):
        await needed(rig)


async def test_the_one_that_is_furthest_behind_counts(rig: Rig) -> None:
    """Also a decider of another topic, which looks in the pool's log for what it has decided."""
    await stop(await run(rig, *NAMES))
    for late in NAMES:
        before = await needed(rig)
        for job in "ab":
            await rig.submit(f"{job}-{late}")
        await stop(await run(rig, *(name for name in NAMES if name != late)))
        assert await needed(rig) <= before + 1
        # A partition's loop keeps a snapshot at the end only where it has gone on.
        records = [new_record(at, "x", JobUnwatched(job="x"), 1) for at in rig.layout.of_topic("loss")]
        await rig.log.append(records)
        await stop(await run(rig, *NAMES))


async def test_every_service_goes_on_behind_what_was_trimmed(rig: Rig) -> None:
    """Unneeded records are removed; each service starts again and decides on, and nothing is decided twice."""
    processes = await run(rig, *NAMES)
    await rig.submit("a")
    await until(lambda: "a" in processes["placer"].view.jobs and processes["placer"].view.jobs["a"].admitted)
    await stop(processes)
    rig.log.trim(AT, await needed(rig))
    begin = await rig.log.begin(AT)
    again = await run(rig, *NAMES)
    await rig.submit("b")
    placer = again["placer"]
    await until(lambda: "b" in placer.view.jobs and placer.view.jobs["b"].admitted)

    assert begin > 0
    assert placer.view.jobs["a"].admitted
    assert placer.view.state.gaps == 0
