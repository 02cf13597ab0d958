"""Topics that have lost their oldest records: who read them goes on, who did not begins behind them, no pool is guessed."""

from __future__ import annotations

import pytest
from tests.harness.memory_log import MemorySnapshots
from tests.harness.system.rig import AT, Rig, RigProcess, read_all
from tests.harness.waiting import until

from steepest.errors import LogEpochError
from steepest.events import cluster as c
from steepest.events.loss import JobWatched, LossReported
from steepest.events.parameters import SpeConParameters
from steepest.events.received import ID, SEQUENCE, SOURCE, DecisionId
from steepest.log.base import TopicPartition
from steepest.policies.placement.placer import Placer
from steepest.runtime import pool_loop
from steepest.runtime.decode import new_record
from steepest.runtime.layout import DEAD_LETTERS
from steepest.runtime.recovery.log_identity import epoch_of
from steepest.runtime.recovery.loop_snapshots import SNAPSHOT_AFTER_S, read_pool_snapshot, read_stream_snapshot
from steepest.runtime.service import Service
from steepest.view.state import Phase

INTERVAL_MS = 1_000


def lane_of(rig: Rig) -> TopicPartition:
    """The partition of the job that the tests report on."""
    return rig.layout.of_key("loss", "a")


async def report(rig: Rig, *steps: int) -> None:
    """Losses of job ``a``, one an interval."""
    records = [
        new_record(
            lane_of(rig),
            "a",
            LossReported(job="a", incarnation=1, step=step, value=1.0),
            step * INTERVAL_MS,
            {SOURCE: "s", SEQUENCE: str(step)},
        )
        for step in steps
    ]
    await rig.log.append(records)


async def watched(rig: Rig) -> RigProcess:
    """A categorizer that knows job ``a``, with a few reports read."""
    process = rig.start("categorizer", snapshots=rig.snapshots.setdefault("categorizer", MemorySnapshots()))
    await ready(process)
    watch = JobWatched(
        job="a", pool="default", incarnation=1, metric="loss", parameters=SpeConParameters(interval_ms=INTERVAL_MS)
    )
    await rig.log.append([new_record(lane_of(rig), "a", watch, 0, {SOURCE: "s", SEQUENCE: "0"})])
    await report(rig, 1, 2, 3)
    await until_measured(rig, 3)
    return process


async def ready(process: RigProcess) -> None:
    """Wait until a process has read what there was, or has given up."""
    await until(lambda: process.task.done() or process.runtime.health.is_ready())
    if process.task.done():
        process.task.result()


async def until_measured(rig: Rig, step: int) -> None:
    """Wait until the growth up to a report is in the pool's log."""

    async def measured() -> bool:
        return any(
            isinstance(one.event, c.GrowthMeasured) and one.at_ms == step * INTERVAL_MS for one in await rig.events()
        )

    while not await measured():
        await rig.clock.sleep(0.1)


async def decisions(rig: Rig) -> list[str]:
    """The ids of all decisions in the pool's log."""
    return [one.headers[ID] for one in await read_all(rig.log, AT) if ID in one.headers]


async def test_a_reader_goes_on_although_what_it_has_read_was_removed(rig: Rig) -> None:
    """With its snapshot it decides on as if nothing were gone, also where its identity and all its records are."""
    await (await watched(rig)).stop()
    before = await decisions(rig)
    rig.log.trim(lane_of(rig), await rig.log.end(lane_of(rig)))
    again = rig.start("categorizer", snapshots=rig.snapshots["categorizer"])
    await ready(again)
    await report(rig, 4, 5)
    await until_measured(rig, 5)

    after = await decisions(rig)
    assert after[: len(before)] == before
    assert len(set(after)) == len(after)
    assert {DecisionId.parse(one).epoch for one in after} == {DecisionId.parse(before[0]).epoch}  # type: ignore[union-attr]
    assert (await rig.view()).state.gaps == 0
    assert again.runtime.metrics.missed.labels("categorizer:loss")._value.get() == 0


async def test_a_reader_without_a_snapshot_begins_with_what_is_left(rig: Rig) -> None:
    """It takes the log's name from what was decided before, so that nothing is decided twice, and counts what it missed."""
    await (await watched(rig)).stop()
    before = await decisions(rig)
    rig.log.trim(lane_of(rig), 2)
    again = rig.start("categorizer")
    await ready(again)
    watch = JobWatched(
        job="a", pool="default", incarnation=1, metric="loss", parameters=SpeConParameters(interval_ms=INTERVAL_MS)
    )
    await rig.log.append([new_record(lane_of(rig), "a", watch, 0, {SOURCE: "again", SEQUENCE: "0"})])
    await report(rig, *range(4, 8))
    await until_measured(rig, 7)

    after = await decisions(rig)
    assert {DecisionId.parse(one).epoch for one in after} == {DecisionId.parse(before[0]).epoch}  # type: ignore[union-attr]
    assert len(set(after)) == len(after)
    assert (await rig.view()).state.gaps == 0
    assert again.runtime.metrics.missed.labels("categorizer:loss")._value.get() == 2


async def test_a_reader_that_was_away_for_too_long_goes_on_behind_the_gap(rig: Rig) -> None:
    """What was removed before it was read is counted, and the rest is decided with what the snapshot knows."""
    await (await watched(rig)).stop()
    end = await rig.log.end(lane_of(rig))
    await report(rig, 4, 5)
    rig.log.trim(lane_of(rig), end + 1)
    again = rig.start("categorizer", snapshots=rig.snapshots["categorizer"])
    await ready(again)
    await report(rig, 6)
    await until_measured(rig, 6)

    assert again.runtime.metrics.missed.labels("categorizer:loss")._value.get() == 1
    assert (await rig.view()).state.gaps == 0


@pytest.mark.parametrize("kept", [True, False], ids=["with a snapshot", "without"])
async def test_letters_that_were_removed_hold_nobody_up(rig: Rig, *, kept: bool) -> None:
    """A start looks for its letters from the first that is left; every loop of the process does."""
    snapshots = MemorySnapshots()
    process = rig.start("placer", "categorizer", "worker-monitor", snapshots=snapshots)
    await ready(process)
    await process.stop()
    await rig.log.append([new_record(DEAD_LETTERS, "x", c.LogOpened(epoch="x"), 1)] * 3)
    rig.log.trim(DEAD_LETTERS, 3)
    await ready(rig.start("placer", "categorizer", "worker-monitor", snapshots=snapshots if kept else None))


async def test_a_pool_goes_on_from_its_snapshot(rig: Rig) -> None:
    """What stands before the snapshot may be gone: the view has it."""
    snapshots = MemorySnapshots()
    process = rig.start("placer", snapshots=snapshots)
    await rig.submit("a")
    await until(lambda: "a" in process.view.jobs and process.view.jobs["a"].admitted)
    await process.stop()
    rig.log.trim(AT, process.view.position)
    again = rig.start("placer", snapshots=snapshots)
    await rig.submit("b")
    await until(lambda: "b" in again.view.jobs and again.view.jobs["b"].admitted)

    assert "a" in again.view.jobs
    assert again.view.state.gaps == 0


async def test_a_raised_logic_takes_over_a_pool_whose_beginning_is_gone(rig: Rig) -> None:
    """The snapshot's view stands for what was removed: today's placer ends the old jobs and places new ones."""
    snapshots = MemorySnapshots()

    class OlderPlacer(Placer):
        logic = Placer.logic - 1

    rig.start("worker-monitor", "migrator", rig.beats())
    old = rig.start(Service(name="placer", cluster_deciders=(OlderPlacer,)), snapshots=snapshots)
    await ready(old)
    await rig.submit("a", "--steps=200")
    await until(lambda: "a" in old.view.jobs and old.view.jobs["a"].alive)
    await old.stop()
    rig.log.trim(AT, old.view.position)
    new = rig.start("placer", snapshots=snapshots)
    await rig.submit("b", "--steps=5")
    await until(lambda: len(new.view.jobs) == 2 and all(job.phase is Phase.ENDED for job in new.view.jobs))

    assert [job.outcome for job in new.view.jobs] == [c.Outcome.FINISHED] * 2
    assert [node.free == node.capacity for node in new.view.nodes] == [True, True]
    assert new.view.state.gaps == 0


@pytest.mark.parametrize("kept", [True, False], ids=["with an older snapshot", "without"])
async def test_a_pool_whose_beginning_is_gone_is_never_guessed(rig: Rig, *, kept: bool) -> None:
    """Where no snapshot reaches to what is left, the process refuses, says from where the log is kept, and how to go on."""
    snapshots = MemorySnapshots()
    process = rig.start("placer", snapshots=snapshots)
    await ready(process)
    await process.stop()
    for job in "abcdef":
        await rig.submit(job)
    rig.log.trim(AT, await rig.log.end(AT) - 1)
    refused = rig.start("placer", snapshots=snapshots if kept else None)
    with pytest.raises(LogEpochError, match=f"kept from {await rig.log.begin(AT)} on") as caught:
        await refused.task

    assert caught.value.code == "offset-missing"
    assert "snapshots" in caught.value.hint
    assert refused.runtime.health.refusal
    assert len(refused.view.jobs) == 0


async def test_a_quiet_reader_keeps_a_snapshot_now_and_then(rig: Rig) -> None:
    """It keeps one an hour after the last: otherwise a quiet partition's would block the trimming of all others."""
    snapshots = MemorySnapshots()
    process = rig.start("placer", "categorizer", snapshots=snapshots)
    await ready(process)
    assert await snapshots.keys() == []
    await rig.clock.sleep(SNAPSHOT_AFTER_S + 10)
    first = await read_stream_snapshot(snapshots, rig.log, "categorizer", lane_of(rig))
    assert first is not None
    assert (await read_pool_snapshot(snapshots, rig.log, AT)) is not None
    await rig.submit("a")
    await rig.clock.sleep(SNAPSHOT_AFTER_S + 10)
    second = await read_stream_snapshot(snapshots, rig.log, "categorizer", lane_of(rig))

    assert second is not None
    assert second.position == first.position
    assert second.scan_from[str(AT)] > first.scan_from[str(AT)]


async def test_a_removed_identity_is_unknown(rig: Rig) -> None:
    """Once the first record is gone, no other is taken for it."""
    await ready(rig.start("placer"))
    assert await epoch_of(rig.log, AT)
    await rig.append(c.LogOpened(epoch="another"))
    rig.log.trim(AT, 1)
    assert await epoch_of(rig.log, AT) == ""


@pytest.mark.parametrize("topic", ["cluster", "loss"])
async def test_an_opening_behind_the_first_is_a_dead_letter(rig: Rig, topic: str) -> None:
    """Of two processes that open a log at the same time the first counts; the other's record is logged, counted, skipped."""
    process = rig.start("placer", "categorizer")
    await ready(process)
    at = AT if topic == "cluster" else lane_of(rig)
    named = await epoch_of(rig.log, at)
    await rig.log.append([new_record(at, "", c.LogOpened(epoch="another"), 1)])
    await rig.submit("a")
    await until(lambda: "a" in process.view.jobs and process.view.jobs["a"].admitted)
    count = process.runtime.metrics.dead_letters.labels(topic)._value
    await until(lambda: count.get() == 1)
    await ready(rig.start("placer", "categorizer"))

    letters = (await read_all(rig.log, DEAD_LETTERS))[1:]
    assert [named in str(letter.value) for letter in letters] == [True]
    assert process.view.state.epoch == await epoch_of(rig.log, AT) != "another"
    assert (await rig.view()).state.gaps == 0


async def test_a_long_log_is_read_with_signs_of_life(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start without a snapshot says after every poll how far it is, from its first look at the log on."""
    process = rig.start("placer")
    await ready(process)
    await process.stop()
    await rig.append(*(c.Tick(counted_ms=number) for number in range(1, 35_000)))
    late = rig.start("placer")
    heard: list[tuple[int, int]] = []
    progress = late.runtime.health.progress

    def hear(loop: str, position: int, lag: int, *, ready: bool) -> None:
        heard.append((position, lag))
        progress(loop, position, lag, ready=ready)

    monkeypatch.setattr(late.runtime.health, "progress", hear)
    await ready(late)
    scanned = [lag for position, lag in heard if position == 0]
    folded = [position for position, _ in heard if position]

    assert scanned == [25_001, 15_001, 5_001, 0]  # beside the pool's 35,000, the one of the letters
    assert folded == sorted(folded)
    assert len(folded) >= 35_000 / pool_loop.BATCH
