"""Old and new code beside each other: an old reader stops where it must, and a roll-back goes on from what was kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from steepest.errors import LogVersionError
from steepest.events import cluster as c
from steepest.events.registry import CLUSTER, READS, SINCE, TOPICS
from steepest.log.snapshots import MemorySnapshots
from steepest.runtime import snapshots as kept
from steepest.testing.rig import AT, Process, Rig
from steepest.testing.waiting import until
from steepest.view import cluster_view

OLD = READS - 1


@contextmanager
def old_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A reader as it was one version ago: what came since is no event to it."""
    known = tuple(kind for kind in CLUSTER.types if SINCE.get(kind, 1) <= OLD)
    union = known[0]
    for kind in known[1:]:
        union = union | kind  # type: ignore[assignment]
    with monkeypatch.context() as patched:
        patched.setitem(TOPICS, "cluster", msgspec.structs.replace(CLUSTER, decoder=msgspec.json.Decoder(union)))
        patched.setattr(cluster_view, "READS", OLD)
        yield


@contextmanager
def new_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Code whose view has another form."""
    with monkeypatch.context() as patched:
        patched.setattr(kept, "VERSION", (*kept.VERSION[:-1], kept.VERSION[-1] + 1))
        yield


async def admit(rig: Rig, process: Process, job: str) -> None:
    """Submit a job and wait until the process has admitted it."""
    await rig.submit(job)
    await until(lambda: job in process.view.jobs and process.view.jobs[job].admitted, f"{job} to be admitted")


NEW_EVENT = c.LimitsPlanned
"""An event that old code does not know."""


async def test_an_old_reader_stops_before_a_new_event_can_come(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a pool is raised to the version that knows it, old code is not ready any more and names both versions."""
    assert SINCE[NEW_EVENT] == READS
    with old_code(monkeypatch):
        old = rig.start("placer")
        await admit(rig, old, "before")
        raised = await rig.log.end(AT)
        await rig.tell(c.PoolConfigured(reads=READS))
        await rig.submit("beyond")
        with pytest.raises(LogVersionError, match=f"event version {READS}.*knows version {OLD}"):
            await old.task

        assert not old.runtime.health.is_ready()
        assert old.runtime.health.refusal
        assert old.view.position == raised
    new = rig.start("placer")
    await until(lambda: "beyond" in new.view.jobs and new.view.jobs["beyond"].admitted)

    assert [event.job for event in await rig.of_type(c.JobAdmitted)] == ["before", "beyond"]


async def test_old_and_new_come_to_the_same_view_until_then(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as a pool is not raised, both may run beside each other: neither decides what the other would not."""
    with old_code(monkeypatch):
        old = rig.start("placer")
        await admit(rig, old, "a")
        position = old.view.position
        snapshot = old.view.snapshot()
        await old.stop()
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
