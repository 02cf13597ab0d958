"""A log that has lost its newest records, while snapshots and the processes on the nodes are still there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.harness.memory_log import MemoryLog, MemorySnapshots
from tests.harness.system.rig import AT, Rig, RigProcess, read_all
from tests.harness.waiting import until

from steepest.cluster.port import ReplicaId
from steepest.log.base import NewRecord, TopicPartition
from steepest.runtime.recovery.checksum_marks import RECORDS, Mark, marks, why_not
from steepest.view.state import Phase

SERVICES = ("placer", "worker-monitor", "migrator")
HEARTBEATS = TopicPartition("heartbeats")


async def without_tail(rig: Rig, ends: Mapping[TopicPartition, int]) -> MemoryLog:
    """The log as it is once the records from these ends on are lost."""
    kept = MemoryLog(rig.layout.partitions())
    for topic in rig.layout.partitions():
        for at in rig.layout.of_topic(topic):
            records = (await read_all(rig.log, at))[: ends.get(at)]
            again = [NewRecord(to=at, key=r.key, value=r.value, at_ms=r.at_ms, headers=r.headers) for r in records]
            await kept.append(again)
    return kept


async def run_until_moved(rig: Rig, snapshots: MemorySnapshots) -> None:
    """Two jobs, one of which was moved, still run when all services stop."""
    process = rig.start(*SERVICES, rig.beats(), snapshots=snapshots)
    await until(process.runtime.health.is_ready)
    await rig.submit("a", "--steps=20", "--step-s=1", node="n1", retries=9)
    await rig.submit("b", "--steps=20", "--step-s=1", retries=9)
    view = process.view
    await until(lambda: len(view.jobs) == 2 and all(job.alive and job.declared_mode for job in view.jobs))
    await rig.migrate("a", "n1", "n2")
    await until(lambda: view.plan("move-1") is not None and not view.in_flight)
    await process.stop()


async def go_on(rig: Rig, snapshots: MemorySnapshots) -> RigProcess:
    """Start all services again; another job takes the place of what was lost."""
    await rig.submit("c", "--steps=3")
    process = rig.start(*SERVICES, rig.beats(), snapshots=snapshots)
    await until(lambda: "c" in process.view.jobs)
    return process


def running(rig: Rig) -> list[str]:
    """The jobs of which a process runs."""
    newest = {job: rig.nodes.newest(ReplicaId(job)) for job in "abc"}
    return [job for job, training in newest.items() if training is not None and training.running]


async def check(rig: Rig, snapshots: MemorySnapshots) -> None:
    """Start all services over what is left, and wait until nothing runs any more."""
    process = await go_on(rig, snapshots)
    view = process.view
    assert view.snapshot() == (await rig.view()).snapshot()
    await until(lambda: all(job.phase is Phase.ENDED for job in view.jobs), "all jobs to end", within_s=600)
    await until(lambda: not running(rig), "forgotten processes to end")
    assert rig.nodes.witness.doubled == []
    assert all(node.free == node.capacity for node in view.nodes)


@pytest.mark.usefixtures("few_records")
@pytest.mark.parametrize(
    "lost",
    [
        pytest.param((AT,), id="cluster", marks=pytest.mark.long),
        pytest.param((AT, HEARTBEATS), id="cluster and heartbeats"),
    ],
)
async def test_cut_anywhere_the_view_is_the_logs_and_no_process_is_forgotten(
    tmp_path: Path, lost: tuple[TopicPartition, ...]
) -> None:
    """Cut at every record: a snapshot of more is none, jobs end, no process runs twice, and none that the log lost."""
    cut = end = 1
    while cut <= end:
        rig = Rig(tmp_path / str(cut), {"n1": 300, "n2": 300})
        try:
            snapshots = MemorySnapshots()
            await run_until_moved(rig, snapshots)
            end = await rig.log.end(AT)
            rig.log = await without_tail(rig, dict.fromkeys(lost, cut))
            await check(rig, snapshots)
        except AssertionError as error:
            error.add_note(f"cut at {cut}")
            raise
        finally:
            await rig.aclose()
        cut += 1


async def test_a_mark_distinguishes_another_log_with_the_same_last_decision() -> None:
    """The last record alone is not enough: the same decision has the same bytes after different records."""
    log, other = MemoryLog({"cluster": 1}), MemoryLog({"cluster": 1})
    for one, fact in ((log, b"fact"), (other, b"another")):
        for value in (b"first", fact, b"decision"):
            await one.append([NewRecord(to=AT, key="", value=value, at_ms=1)])
    (mark,) = await marks(log, {AT: 3})

    assert await why_not(log, [mark]) == ""
    assert "other records" in await why_not(other, [mark])
    assert "ends at 3" in await why_not(log, [Mark(AT, 4, ())])


@pytest.mark.parametrize("trimmed", [0, 1, RECORDS, RECORDS + 7, RECORDS + 9])
async def test_retention_takes_nothing_from_a_snapshots_worth(trimmed: int) -> None:
    """Records removed by age are not missed: the rest still identifies the log."""
    log = MemoryLog({"cluster": 1})
    count = RECORDS + 9
    await log.append([NewRecord(to=AT, key="", value=b"%d" % number, at_ms=1) for number in range(count)])
    kept = await marks(log, {AT: count})
    log.trim(AT, trimmed)
    assert await why_not(log, kept) == ""


@pytest.mark.parametrize("trimmed", [12, RECORDS + 7, RECORDS + 9])
async def test_retention_may_remove_records_while_a_mark_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, trimmed: int
) -> None:
    """Between the question where the log begins and the first read, it begins later."""
    log = MemoryLog({"cluster": 1})
    count = RECORDS + 9
    await log.append([NewRecord(to=AT, key="", value=b"%d" % number, at_ms=1) for number in range(count)])
    kept = await marks(log, {AT: count})
    begin = log.begin

    async def begin_and_trim(at: TopicPartition) -> int:
        found = await begin(at)
        if found < trimmed:
            log.trim(at, trimmed)
        return found

    monkeypatch.setattr(log, "begin", begin_and_trim)
    assert await why_not(log, kept) == ""
