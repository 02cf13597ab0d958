"""A snapshot that is not for this code is refused, and everything is folded from the beginning."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from structlog.testing import capture_logs
from tests.harness.memory_log import MemorySnapshots
from tests.harness.system.rig import AT, Rig, RigProcess
from tests.harness.waiting import until

from steepest.log.base import TopicPartition
from steepest.policies.specon.categorizer import Categorizer
from steepest.runtime.recovery.loop_snapshots import read_pool_snapshot, read_stream_snapshot

LOSS = TopicPartition("loss", 0)


async def kept_under(snapshots: MemorySnapshots, name: str) -> tuple[str, bytes]:
    """The only snapshot whose key begins so: its key, and what is in it."""
    (key,) = [key for key in await snapshots.keys() if key.startswith(name)]
    data = (await snapshots.load(key))[0]
    return key, data


async def run_once(rig: Rig, snapshots: MemorySnapshots, *services: str, job: str = "a") -> RigProcess:
    """Run services until a job is admitted, and stop them gracefully."""
    process = rig.start(*services, snapshots=snapshots)
    await rig.submit(job)
    await until(lambda: job in process.view.jobs and process.view.jobs[job].admitted)
    await process.stop()
    return process


def change(data: bytes, **fields: object) -> bytes:
    """The snapshot with other fields."""
    return msgspec.msgpack.encode({**msgspec.msgpack.decode(data), **fields})


def change_state(data: bytes, **fields: object) -> bytes:
    """The snapshot with another state of the placer."""
    decoded = msgspec.msgpack.decode(data)
    decoded["deciders"]["placer"].update(fields)
    return msgspec.msgpack.encode(decoded)


async def test_a_snapshot_is_used(rig: Rig) -> None:
    """After a graceful stop the next process folds only what came since, and ends with the same view."""
    snapshots = MemorySnapshots()
    first = await run_once(rig, snapshots, "placer")
    kept = await read_pool_snapshot(snapshots, rig.log, AT)
    assert kept is not None
    assert kept.view.position == first.view.position
    second = await run_once(rig, snapshots, "placer", job="b")

    assert (
        second.runtime.metrics.records.labels("pool:default")._value.get() == second.view.position - kept.view.position
    )
    assert second.view.snapshot() == (await rig.view()).snapshot()


REFUSED: dict[str, Callable[[bytes], bytes]] = {
    "another version": lambda data: change(data, version=[1, 1]),
    "an older kind of version": lambda data: change(data, version=1),
    "another version of the view": lambda data: change(data, version=[2, 99]),
    "another form": lambda data: change(data, view=["nothing"]),
    "no snapshot at all": lambda _: b"\x00\x01",
    "no state of a decider": lambda data: change(data, deciders={}),
    "another logic of a decider": lambda data: change_state(data, logic=99),
    "another form of a decider's state": lambda data: change_state(data, state=b"\x93\x01"),
}


@pytest.mark.parametrize("spoil", REFUSED.values(), ids=REFUSED.keys())
async def test_a_snapshot_that_is_not_for_this_code_is_refused(rig: Rig, spoil: Callable[[bytes], bytes]) -> None:
    """It is logged, the log is folded from its beginning, and nothing is decided twice."""
    snapshots = MemorySnapshots()
    await run_once(rig, snapshots, "placer")
    key, data = await kept_under(snapshots, "pool-cluster-0")
    await snapshots.save(key, spoil(data))
    with capture_logs() as logs:
        second = await run_once(rig, snapshots, "placer", job="b")

    assert any("snapshot not used" in entry["event"] for entry in logs)
    assert second.runtime.metrics.records.labels("pool:default")._value.get() == second.view.position
    assert second.runtime.metrics.repeated.labels("placer")._value.get() == 1
    assert second.view.snapshot() == (await rig.view()).snapshot()
    assert await rig.broken() == []


async def test_a_new_decider_reads_from_the_beginning(rig: Rig) -> None:
    """A decider that a snapshot does not know must not miss what came before it."""
    snapshots = MemorySnapshots()
    await run_once(rig, snapshots, "placer")
    second = await run_once(rig, snapshots, "placer", "rebalancer", job="b")

    assert second.runtime.metrics.records.labels("pool:default")._value.get() == second.view.position


async def test_the_state_of_a_decider_is_kept(rig: Rig) -> None:
    """What a decider remembers between records is in the snapshot: here a plan that it has not read back yet."""
    snapshots = MemorySnapshots()
    await run_once(rig, snapshots, "placer")
    key, data = await kept_under(snapshots, "pool-cluster-0")
    pending = {"plans": {}, "jobs": {"b": "place-9-b"}, "nodes": {}}
    await snapshots.save(key, change_state(data, state=msgspec.msgpack.encode(pending)))
    await run_once(rig, snapshots, "placer", job="c")
    kept = await read_pool_snapshot(snapshots, rig.log, AT)

    assert kept is not None
    assert msgspec.msgpack.decode(kept.deciders["placer"].state)["jobs"] == {"b": "place-9-b"}


async def test_a_stream_snapshot_of_another_form_is_refused(rig: Rig) -> None:
    """A categorizer starts from the log's beginning if its state cannot be read."""
    snapshots = MemorySnapshots()
    await run_once(rig, snapshots, "placer", "categorizer")
    assert await read_stream_snapshot(snapshots, rig.log, Categorizer.name, LOSS) is not None
    key, data = await kept_under(snapshots, "categorizer-loss-0")
    for spoilt in (b"", change(data, version=[0, 0])):
        await snapshots.save(key, spoilt)

        assert await read_stream_snapshot(snapshots, rig.log, Categorizer.name, LOSS) is None
