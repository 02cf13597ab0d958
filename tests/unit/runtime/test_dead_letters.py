"""Dead letters: an unreadable record is reported with its position and the reason, and the reader continues."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.memory_log import MemorySnapshots
from tests.harness.system.rig import AT, POOL, Rig, RigProcess, events_of, read_all
from tests.harness.waiting import until

from steepest.events import cluster as c
from steepest.events.common import LARGEST
from steepest.events.dead_letter import DeadLetter
from steepest.events.loss import LossReported
from steepest.events.received import ID, DecisionId
from steepest.events.registry import encode
from steepest.log.base import Log, NewRecord, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.log.files.recording import partition_file
from steepest.runtime.dead_letters import DEAD_LETTER_BYTES
from steepest.runtime.layout import DEAD_LETTERS
from steepest.runtime.recovery.loop_snapshots import read_pool_snapshot
from steepest.view.folds.fold_pool import PERIODS_COUNTED

SPEC = c.JobSpec(command=("x",))


async def letters(log: Log) -> list[DeadLetter]:
    """All dead letters, as a reader of letters counts them: each id once."""
    found: dict[str, DeadLetter] = {}
    for received in await events_of(log, DEAD_LETTERS):
        if isinstance(received.event, DeadLetter):
            found.setdefault(received.headers[ID], received.event)
    return list(found.values())


async def written(log: Log) -> int:
    """How many letters stand in the topic, repetitions included."""
    return await log.end(DEAD_LETTERS) - 1


async def send(rig: Rig, value: bytes, *, to: TopicPartition = AT, key: str = POOL, headers: int = 0) -> None:
    """Append a record with this value, and so many bytes of headers."""
    more = {f"h{number}": "x" * 1_000 for number in range(headers // 1_000)}
    await rig.log.append([NewRecord(to=to, key=key, value=value, at_ms=5, headers=more)])


async def admitted(rig: Rig, process: RigProcess, job: str) -> None:
    """Submit a job and wait until it is admitted: the reader goes on."""
    await rig.submit(job)
    await until(lambda: job in process.view.jobs and process.view.jobs[job].admitted, f"{job} to be admitted")


BAD = {
    "no JSON": b"\xff\xfe\x00",
    "cut off": encode(c.Tick(counted_ms=1))[:-3],
    "empty": b"",
    "an unknown event": b'{"type":"JobTeleported","job":"a"}',
    "no event at all": b"[1, 2, 3]",
    "another topic's event": encode(LossReported(job="a", incarnation=1, value=0.5)),
    "a name that is none": b'{"type":"NodeJoined","node":"../../etc","capacity":{}}',
    "a negative amount": b'{"type":"Tick","counted_ms":-4}',
    "a time of 64 bits": b'{"type":"Tick","counted_ms":9223372036854775808}',
    "a time without end": b'{"type":"Tick","counted_ms":1%s}' % (b"0" * 400),
    "not a number": b'{"type":"GrowthMeasured","job":"a","interval":1,"total":NaN}',
    "nested without end": b"[" * 100_000,
    "huge": b'{"type":"' + b"x" * 2_000_000 + b'"}',
}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD.keys())
async def test_what_cannot_be_read_is_told_and_passed_over(rig: Rig, value: bytes) -> None:
    """Its letter names topic, partition, offset and reason and keeps its first bytes; the next record is read."""
    process = rig.start("placer")
    await admitted(rig, process, "before")
    offset = await rig.log.end(AT)
    await send(rig, value)
    await admitted(rig, process, "after")
    (letter,) = await letters(rig.log)

    assert (letter.topic, letter.partition, letter.offset, letter.key) == ("cluster", 0, offset, POOL)
    assert letter.reason
    assert letter.value == value[:DEAD_LETTER_BYTES]
    assert process.runtime.metrics.dead_letters.labels("cluster")._value.get() == 1


@pytest.mark.parametrize("counted_ms", [LARGEST, LARGEST + 1, 2**64, 10**300])
async def test_a_forged_time_spoils_no_snapshot(rig: Rig, counted_ms: int) -> None:
    """With any number in a forged record, the view can still be saved, and a process continues from the snapshot."""
    snapshots = MemorySnapshots()
    first = rig.start("placer", snapshots=snapshots)
    await send(rig, b'{"type":"Tick","counted_ms":%d}' % counted_ms)
    await admitted(rig, first, "before")
    assert first.view.counted_ms == (PERIODS_COUNTED * first.view.parameters.tick_ms if counted_ms == LARGEST else 0)
    await first.stop()
    kept = await read_pool_snapshot(snapshots, rig.log, AT)
    assert kept is not None
    assert kept.view.counted_ms == first.view.counted_ms
    await admitted(rig, rig.start("placer", snapshots=snapshots), "after")

    assert len(await letters(rig.log)) == (counted_ms != LARGEST)


async def test_a_huge_key_and_headers_make_no_huge_letter(rig: Rig) -> None:
    """A letter about any record fits into the log."""
    process = rig.start("placer")
    await send(rig, b"?", key="k" * 4_000_000, headers=3_000_000)
    await admitted(rig, process, "after")
    (letter,) = await letters(rig.log)

    assert letter.key == "k" * DEAD_LETTER_BYTES
    assert 0 < len(letter.headers) < 100


async def test_a_first_record_that_cannot_be_read_is_a_letter_like_any_other(rig: Rig) -> None:
    """A log whose identity is unreadable is read all the same."""
    await send(rig, b"?")
    process = rig.start("placer")
    await admitted(rig, process, "after")

    assert [letter.offset for letter in await letters(rig.log)] == [0]


async def test_a_stream_has_letters_too(rig: Rig) -> None:
    """Readers of losses and heartbeats report what they cannot read, and continue."""
    process = rig.start("categorizer", "worker-monitor", "placer")
    await admitted(rig, process, "a")
    for topic in ("loss", "heartbeats"):
        await send(rig, b"?", to=TopicPartition(topic, 0))
    while await written(rig.log) < 2:
        await rig.clock.sleep(0.01)
    found = {(letter.topic, letter.offset) for letter in await letters(rig.log)}

    assert found == {("heartbeats", 1), ("loss", 1)}
    readers = 2  # of heartbeats: for facts and for epochs
    assert process.runtime.metrics.dead_letters.labels("heartbeats")._value.get() == readers


@pytest.mark.parametrize("keep_snapshots", [True, False])
async def test_a_restart_writes_no_letter_again(rig: Rig, keep_snapshots: bool) -> None:  # noqa: FBT001 - a case
    """Killed or stopped, a process that comes back writes no letter that stands there already."""
    snapshots = MemorySnapshots()
    for number in range(3):
        process = rig.start("placer", "categorizer", snapshots=snapshots if keep_snapshots else None)
        await send(rig, b"?")
        await send(rig, b"!", to=TopicPartition("loss", 1))
        await admitted(rig, process, f"j{number}")
        await until(lambda: process.runtime.metrics.dead_letters.labels("loss")._value.get() == 1)  # noqa: B023
        if number == 1:
            process.kill()
        else:
            await process.stop()

    assert await written(rig.log) == 6
    assert len(await letters(rig.log)) == 6


async def test_two_readers_write_one_letter(rig: Rig) -> None:
    """Each process reports the unreadable record under the same id, so that a reader of letters counts it once."""
    both = [rig.start("placer"), rig.start("rebalancer")]
    await admitted(rig, both[0], "a")
    offset = await rig.log.end(AT)
    await send(rig, b"?")
    for process in both:
        await until(lambda: process.runtime.metrics.dead_letters.labels("cluster")._value.get() == 1)  # noqa: B023
    ids = [record.headers[ID] for record in (await read_all(rig.log, DEAD_LETTERS))[1:]]

    assert len(ids) == 2
    assert len(set(ids)) == 1
    decision = DecisionId.parse(ids[0])
    assert decision is not None
    assert (decision.decider, decision.topic, decision.offset) == ("reader", "cluster", offset)


async def test_a_damaged_record_is_a_letter(rig: Rig, tmp_path: Path) -> None:
    """A line of a recording that does not match its checksum becomes a letter with that reason, and reading continues."""
    log = FileLog(tmp_path / "log", rig.layout.partitions())
    rig.log = log  # type: ignore[assignment]
    log.reopen = lambda: log  # type: ignore[attr-defined]
    first = rig.start("placer")
    await admitted(rig, first, "a")
    await first.stop()
    file = partition_file(tmp_path / "log", AT)
    lines = file.read_bytes().split(b"\n")
    place = next(number for number, line in enumerate(lines) if b"JobAdmitted" in line)
    lines[place] = lines[place].replace(b"JobAdmitted", b"JobAdmittee")
    file.write_bytes(b"\n".join(lines))
    second = rig.start("placer")
    await admitted(rig, second, "b")
    (letter,) = await letters(log)
    await second.aclose()
    await log.close()

    assert letter.offset == place
    assert "checksum" in letter.reason
