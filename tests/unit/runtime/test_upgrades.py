"""Old and new code beside each other: an old reader stops where it must, and a roll-back goes on from what was kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.harness.memory_log import MemorySnapshots
from tests.harness.release_after import AFTER, FLAG, UPGRADED
from tests.harness.system.rig import AT, POOL, Rig, RigProcess, read_all
from tests.harness.waiting import until

from steepest.errors import LogVersionError
from steepest.events import cluster as c
from steepest.events.received import ID
from steepest.events.registry import READS
from steepest.log.base import NewRecord
from steepest.runtime.layout import DEAD_LETTERS
from steepest.runtime.recovery import loop_snapshots as kept
from steepest.view import cluster_view
from steepest.view.cluster_view import fold_all


@contextmanager
def new_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A reader that knows another event version and another flag."""
    with monkeypatch.context() as patched:
        for name, known in AFTER.items():
            patched.setattr(cluster_view, name, known)
        yield


@contextmanager
def new_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Code whose view has another form."""
    with monkeypatch.context() as patched:
        patched.setattr(kept, "VERSION", (*kept.VERSION[:-1], kept.VERSION[-1] + 1))
        yield


async def admit(rig: Rig, process: RigProcess, job: str) -> None:
    """Submit a job and wait until the process has admitted it."""
    await rig.submit(job)
    await until(lambda: job in process.view.jobs and process.view.jobs[job].admitted, f"{job} to be admitted")


@pytest.mark.parametrize(
    ("configured", "asks"),
    [(c.PoolConfigured(reads=READS + 1), f"event version {READS + 1}"), (UPGRADED, rf"flags \[{FLAG}\]")],
    ids=["version", "flag"],
)
async def test_an_old_reader_stops_before_a_new_event_can_come(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, configured: c.PoolConfigured, asks: str
) -> None:
    """Where a pool is raised to the version that knows it, old code is not ready any more and names both versions."""
    old = rig.start("placer")
    await admit(rig, old, "before")
    raised = await rig.log.end(AT)
    await rig.append(configured)
    await rig.submit("beyond")
    with pytest.raises(LogVersionError, match=f"{asks}.*knows version {READS}"):
        await old.task

    assert not old.runtime.health.is_ready()
    assert old.runtime.health.refusal
    assert old.view.position == raised
    with new_code(monkeypatch):
        new = rig.start("placer")
        await until(lambda: "beyond" in new.view.jobs and new.view.jobs["beyond"].admitted)

    assert [event.job for event in await rig.of_type(c.JobAdmitted)] == ["before", "beyond"]


@pytest.mark.parametrize(
    ("later", "headers", "message"),
    [
        pytest.param(
            b'{"type":"LuckPlanned","plan":"luck-2-n1","node":"n1"}',
            {ID: "limit-planner/e/cluster/0/2/0"},
            "is a 'LuckPlanned' of limit-planner, which this reader does not know",
            id="a decision",
        ),
        pytest.param(
            b'{"type":"CategoryChanged","job":"a","before":"PC","after":"TOMORROW","growth":0.1}',
            {ID: "categorizer/e/loss/0/2/0"},
            "'CategoryChanged' of categorizer, with a value that this reader does not know .*TOMORROW",
            id="a value of tomorrow",
        ),
        pytest.param(
            b'{"type":"LuckPlanned","plan":"p","node":"n","limits":[{"job":"a","incarnation":1,"growth_list":"XL"}]}',
            {ID: "limit-planner/e/cluster/0/2/0"},
            "'LuckPlanned' of limit-planner, which this reader does not know",
            id="an event of tomorrow with a value of the day after",
        ),
        pytest.param(
            b'{"type":"PoolConfigured","reads":%d,"parameters":{"placement":{"of":"tomorrow"}}}' % (READS + 1),
            {},
            f"event version {READS + 1}",
            id="parameters of another form",
        ),
        pytest.param(
            b'{"type":"PoolConfigured","flags":[4711],"parameters":{"specon":{"threshold":"of tomorrow"}}}',
            {},
            r"flags \[4711\]",
            id="a flag, and a value that goes with it",
        ),
    ],
)
async def test_an_old_reader_stops_at_what_came_too_early(
    rig: Rig, later: bytes, headers: dict[str, str], message: str
) -> None:
    """What newer code used before the pool was raised, or in a form that cannot be read: it would split the views."""
    old = rig.start("placer")
    await admit(rig, old, "before")
    there = await rig.log.end(AT)
    await rig.log.append([NewRecord(to=AT, key=POOL, value=later, at_ms=1, headers=headers)])
    await rig.submit("beyond")
    with pytest.raises(LogVersionError, match=message):
        await old.task

    assert not old.runtime.health.is_ready()
    assert old.view.position == there
    assert not any(job.name == "beyond" for job in old.view.jobs)
    assert len(await read_all(rig.log, DEAD_LETTERS)) == 1  # its opening


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b'{"type":"JobTeleported"}', {}),
        (b'{"type":"JobTeleported"}', {ID: "no id"}),
        (b'{"type":"PoolConfigured","reads":"many"}', {}),
        (b'{"type":"PoolConfigured","parameters":7}', {}),
        (b'{"type":"Tick"}', {ID: "limit-planner/e/cluster/0/2/0"}),
        (b'{"type":"CategoryChanged","job":"a","before":"PC","after":"TOMORROW","growth":0.1}', {}),
        (b'{"type":"CategoryChanged","job":"a","before":"PC","after":7}', {ID: "categorizer/e/loss/0/2/0"}),
        (b'{"type":"CategoryChanged","job":"a","before":"PC"}', {ID: "categorizer/e/loss/0/2/0"}),
        (b"[" * 100_000, {ID: "limit-planner/e/cluster/0/2/0"}),
        (b'{"type":"\xff"}', {ID: "limit-planner/e/cluster/0/2/0"}),
    ],
)
async def test_a_record_of_no_decider_stops_no_reader(rig: Rig, value: bytes, headers: dict[str, str]) -> None:
    """A record that no version of ours has written is a dead letter, with any headers."""
    placer = rig.start("placer")
    await rig.log.append([NewRecord(to=AT, key=POOL, value=value, at_ms=1, headers=headers)])
    await admit(rig, placer, "beyond")

    assert len(await read_all(rig.log, DEAD_LETTERS)) == 2


async def test_old_and_new_come_to_the_same_view_until_then(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as a pool is not raised, both may run beside each other: neither decides what the other would not."""
    old = rig.start("placer")
    await admit(rig, old, "a")
    position = old.view.position
    snapshot = old.view.snapshot()
    await old.stop()
    with new_code(monkeypatch):
        new = rig.start("placer")
        await until(lambda: new.view.position >= position)

    assert new.view.snapshot() == snapshot
    assert new.runtime.metrics.repeated.labels("placer")._value.get() == 1
    assert await rig.broken() == []


async def test_a_roll_back_goes_on_from_its_own_snapshot(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newer form is kept beside the older one, so that older code folds only what came since it stopped."""
    snapshots = MemorySnapshots()
    old = rig.start("placer", snapshots=snapshots)
    await admit(rig, old, "a")
    await old.stop()
    left_at = old.view.position
    with new_state(monkeypatch):
        new = rig.start("placer", snapshots=snapshots)
        await admit(rig, new, "b")
        await new.stop()
    assert len([key for key in await snapshots.keys() if key.startswith("pool-cluster-0")]) == 2

    again = rig.start("placer", snapshots=snapshots)
    await admit(rig, again, "c")

    assert again.runtime.metrics.records.labels("pool:default")._value.get() == again.view.position - left_at
    assert again.view.snapshot() == (await rig.view()).snapshot()
    assert [event.job for event in await rig.of_type(c.JobAdmitted)] == ["a", "b", "c"]
    assert await rig.broken() == []


async def test_a_roll_back_without_a_snapshot_of_its_own_begins_anew(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only a later version kept snapshots, all of each topic is folded, and nothing is decided twice."""
    snapshots = MemorySnapshots()
    with new_state(monkeypatch):
        new = rig.start("placer", "categorizer", snapshots=snapshots)
        await admit(rig, new, "a")
        await new.stop()
    later = await snapshots.keys()
    assert {key.split("-")[0] for key in later} == {"pool", "categorizer"}

    again = rig.start("placer", "categorizer", snapshots=snapshots)
    await admit(rig, again, "b")
    await again.stop()

    records = again.runtime.metrics.records
    assert records.labels("pool:default")._value.get() == again.view.position
    ends = [await rig.log.end(at) for at in rig.layout.of_topic("loss")]
    assert records.labels("categorizer:loss")._value.get() == sum(ends)
    assert again.view.snapshot() == fold_all((await rig.events())[: again.view.position]).snapshot()
    assert len(await snapshots.keys()) == 2 * len(later)
    assert [event.job for event in await rig.of_type(c.JobAdmitted)] == ["a", "b"]
    assert await rig.broken() == []
