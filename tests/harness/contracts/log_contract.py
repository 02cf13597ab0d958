"""The contract of every ordered log, as tests that each implementation inherits.

It owns the promises of ``steepest.log.base`` in a form that can fail. It must never know which implementation it runs
on, and it asks for nothing that a Kafka topic cannot give. A log that other processes can open inherits from
``tests.harness.contracts.log_processes.SharedLogContract`` instead.

To run it on a log, inherit and give the two fixtures::

    class TestMyLog(LogContract):
        @pytest.fixture
        async def log(self):
            log = MyLog(PARTITIONS)  # empty, with exactly these topics
            yield log
            await log.close()

        @pytest.fixture
        def reopen(self, log):  # gives another handle on the same log; the tests close it
            return log.reopen
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steepest.errors import InputError, LogEpochError, LogUnavailableError
from steepest.log.base import Log, NewRecord, Reader, Record, TopicPartition

PARTITIONS: Mapping[str, int] = {"cluster": 1, "loss": 3}
"""The topics that a log under test has."""

CLUSTER = TopicPartition("cluster", 0)
LOSS = tuple(TopicPartition("loss", number) for number in range(3))
MAX_AT_MS = 2**63 - 1

NO_WAIT_S = 0.01
"""For polls at an end where nothing will come: any time will do."""

PATIENCE_S = 60.0
"""How long a test waits for what must come; ends a broken test and measures nothing."""

Reopen = Callable[[], Awaitable[Log]]

VALUES = {
    "empty": b"",
    "JSON": b'{"type":"Tick","at_ms":12}',
    "JSON of a number": b"1763683200000",
    "JSON with blanks around": b' {"a": 1}\t',
    "JSON in two lines": b'{"a":\n1}',
    "JSON with a carriage return": b'{"a":\r\n1}',
    "JSON that is not ASCII": '{"α":"≥ 0"}'.encode(),
    "JSON with a name twice": b'{"a":1,"a":2}',
    "JSON with numbers beyond 64 bits": b"[1e999,123456789012345678901234567890,-0.0]",
    "JSON with a text that is no UTF-8": b'"\xff"',
    "JSON with an encoded surrogate": b'"\xed\xa0\x80"',
    "JSON with an escaped lone surrogate": b'"\\ud800"',
    "JSON nested deeper than a stack": b"[" * 5000 + b"]" * 5000,
    "JSON nested almost as deep as a stack": b"[" * 900 + b"]" * 900,
    "almost JSON": b'{"a":NaN}',
    "JSON twice": b"{}{}",
    "a line's end": b"\n",
    "no text": bytes(range(256)),
    "zeros": b"\0" * 100,
    "1 MiB of text": b'"' + b"x" * (2**20 - 2) + b'"',
    "a MiB that is no text": bytes(range(255, -1, -1)) * 4096,
}
"""Values that storage or transport may trip over."""

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def new(
    value: bytes = b"{}", to: TopicPartition = CLUSTER, *, key: str = "k", at_ms: int = 1763683200000, **headers: str
) -> NewRecord:
    """A record to append."""
    return NewRecord(to=to, key=key, value=value, at_ms=at_ms, headers=headers)


def numbered(count: int, to: TopicPartition = CLUSTER, *, first: int = 0) -> list[NewRecord]:
    """Records whose values are the numbers from ``first`` on."""
    return [new(str(number).encode(), to) for number in range(first, first + count)]


def as_new(record: Record) -> NewRecord:
    """The appended record of which this one was made."""
    assert not record.damage
    return NewRecord(to=record.at, key=record.key, value=record.value, at_ms=record.at_ms, headers=record.headers)


async def read(reader: Reader, count: int, *, max_records: int = 1000) -> list[Record]:
    """The next records, this many, over as many polls as needed."""
    records: list[Record] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(records) < count:
            polled = await reader.poll(max_records=min(max_records, count - len(records)))
            assert len(polled) <= max_records
            records.extend(polled)
    return records


async def read_all(log: Log, at: TopicPartition) -> list[Record]:
    """All records of a partition now."""
    reader = log.reader({at: 0})
    records = await read(reader, await log.end(at))
    await reader.close()
    return records


def values(records: Sequence[Record]) -> list[bytes]:
    """The records' values."""
    return [record.value for record in records]


class LogContract:
    """The promises of ``steepest.log.base``, a test each."""

    @pytest.fixture
    def log(self) -> Log:
        """An empty log with the topics of ``PARTITIONS``; closed after the test."""
        raise NotImplementedError("a subclass gives the log to test")

    @pytest.fixture
    def reopen(self) -> Reopen:
        """Makes another handle on the log under test, as another program would have."""
        raise NotImplementedError("a subclass says how its log is opened again")

    # --- appending -----------------------------------------------------------------------------------------------

    async def test_offsets_count_up_from_zero_in_each_partition(self, log: Log) -> None:
        """Offsets are 0, 1, 2 … in each partition, and an append gives them in the order of its records."""
        assert list(await log.append([new(to=CLUSTER), new(to=LOSS[1]), new(to=CLUSTER), new(to=LOSS[2])])) == [
            *(0, 0, 1, 0)
        ]
        assert list(await log.append([new(to=LOSS[1]), new(to=CLUSTER)])) == [1, 2]

    async def test_an_append_of_nothing_gives_nothing(self, log: Log) -> None:
        """An append without records is none."""
        assert list(await log.append([])) == []
        assert await log.end(CLUSTER) == 0

    async def test_the_end_is_where_the_next_record_goes(self, log: Log) -> None:
        """The end is 0 before the first record, and counts appended records immediately, by partition."""
        assert [await log.end(at) for at in (CLUSTER, *LOSS)] == [0, 0, 0, 0]
        await log.append([*numbered(3), *numbered(2, LOSS[2])])
        assert [await log.end(at) for at in (CLUSTER, *LOSS)] == [3, 0, 0, 2]

    async def test_partitions_are_listed_in_order(self, log: Log) -> None:
        """A topic's partitions are numbered from 0, and are listed whether or not anything was written to them."""
        assert list(await log.partitions("loss")) == list(LOSS)
        assert list(await log.partitions("cluster")) == [CLUSTER]

    async def test_records_of_one_append_stand_together(self, log: Log, reopen: Reopen) -> None:
        """The records of one call and partition stay neighbours in their order while other writers append."""
        other = await reopen()

        async def append(writer: int) -> None:
            for batch in range(10):
                body = [new(f"{writer}:{batch}:{index}".encode(), LOSS[index % 2]) for index in range(8)]
                await (log, other)[writer % 2].append(body)

        await asyncio.gather(*(append(writer) for writer in range(4)))
        for parity, at in enumerate(LOSS[:2]):
            found = [value.split(b":") for value in values(await read_all(log, at))]
            assert len(found) == 160
            for start in range(0, 160, 4):
                batch = found[start : start + 4]
                assert len({(writer, number) for writer, number, _ in batch}) == 1
                assert [int(index) for _, _, index in batch] == [parity + 2 * step for step in range(4)]
        await other.close()

    async def test_a_handle_appends_after_what_another_appended(self, log: Log, reopen: Reopen) -> None:
        """Two handles on one log share its offsets: neither writes over the other, and there are no holes."""
        other = await reopen()
        offsets = [(await handle.append([new()]))[0] for handle in (log, other, other, log, other)]
        assert offsets == [0, 1, 2, 3, 4]
        assert await log.end(CLUSTER) == await other.end(CLUSTER) == 5
        await other.close()

    # --- byte for byte -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
    async def test_a_value_comes_back_byte_for_byte(self, log: Log, value: bytes) -> None:
        """Any bytes as a value come back unchanged, and so do its neighbours."""
        given_records = [new(b"before"), new(value), new(b"after")]
        await log.append(given_records)
        assert [as_new(record) for record in await read_all(log, CLUSTER)] == given_records

    @pytest.mark.parametrize("at_ms", [0, 1, 2**53 + 1, MAX_AT_MS])
    async def test_a_time_comes_back_exactly(self, log: Log, at_ms: int) -> None:
        """Times are whole milliseconds of 63 bits, none of them special and none rounded."""
        await log.append([new(at_ms=at_ms)])
        assert (await read_all(log, CLUSTER))[0].at_ms == at_ms

    # Each example reads from where the one before ended, so one log will do; and each subclass runs the same method.
    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(
        records=st.lists(
            st.builds(
                NewRecord,
                to=st.sampled_from(LOSS),
                key=TEXT,
                value=st.binary(max_size=200),
                at_ms=st.integers(0, MAX_AT_MS),
                headers=st.dictionaries(TEXT, TEXT, max_size=4),
            ),
            max_size=20,
        )
    )
    async def test_any_records_come_back_exactly(self, log: Log, records: list[NewRecord]) -> None:
        """Value, key, headers and time come back as they were given, in the order given, at the offsets promised."""
        start = {at: await log.end(at) for at in LOSS}
        offsets = await log.append(records)
        reader = log.reader(start)
        found = {(record.at, record.offset): as_new(record) for record in await read(reader, len(records))}
        await reader.close()
        assert found == {(record.to, offset): record for record, offset in zip(records, offsets, strict=True)}

    async def test_changing_headers_after_the_append_changes_nothing(self, log: Log) -> None:
        """The log keeps what the headers were when they were appended."""
        headers = {"id": "a"}
        await log.append([NewRecord(to=CLUSTER, key="k", value=b"", at_ms=1, headers=headers)])
        headers["id"] = "b"
        assert (await read_all(log, CLUSTER))[0].headers == {"id": "a"}

    # --- what is refused -----------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "bad",
        [
            new(to=TopicPartition("nowhere", 0)),
            new(to=TopicPartition("cluster", 1)),
            new(to=TopicPartition("cluster", -1)),
            new(at_ms=-1),
            new(at_ms=MAX_AT_MS + 1),
            new(key="\ud800"),
            new(id="\udfff"),
            new(b"x" * (8 * 2**20 + 1)),
        ],
        ids=["topic", "partition", "negative partition", "negative time", "time of 64 bits", "key", "header", "size"],
    )
    async def test_a_record_that_no_log_can_hold_is_refused_with_its_call(self, log: Log, bad: NewRecord) -> None:
        """Unknown partitions, times outside 63 bits, lone surrogates and more than 8 MiB are refused with the call."""
        with pytest.raises(InputError):
            await log.append([new(), bad, new()])
        assert await log.end(CLUSTER) == 0
        assert list(await log.append([new()])) == [0]

    async def test_what_the_log_does_not_have_is_named(self, log: Log) -> None:
        """Asking for an unknown topic or partition, or reading from a negative offset, names what was asked for."""
        with pytest.raises(InputError, match="nowhere"):
            await log.partitions("nowhere")
        with pytest.raises(InputError, match="cluster/7"):
            await log.end(TopicPartition("cluster", 7))
        with pytest.raises(InputError, match="cluster/7"):
            log.reader({TopicPartition("cluster", 7): 0})
        with pytest.raises(InputError, match="-1"):
            log.reader({CLUSTER: -1})

    # --- reading -------------------------------------------------------------------------------------------------

    async def test_a_reader_sees_each_record_once_in_order(self, log: Log) -> None:
        """Over any number of polls, each record of each partition comes once, in order, and no other partition's."""
        await log.append([record for at in LOSS for record in numbered(50, at)] + numbered(5))
        reader = log.reader(dict.fromkeys(LOSS, 0))
        found = await read(reader, 150, max_records=7)
        for at in LOSS:
            mine = [record for record in found if record.at == at]
            assert [record.offset for record in mine] == list(range(50))
            assert values(mine) == [str(number).encode() for number in range(50)]
        assert list(await reader.poll(timeout_s=NO_WAIT_S)) == []
        await reader.close()

    @pytest.mark.parametrize("start", [0, 1, 57, 99, 100])
    async def test_a_reader_starts_where_it_was_asked_to(self, log: Log, start: int) -> None:
        """The first record is the one at the start, also when that is the end and comes only later."""
        await log.append(numbered(100))
        reader = log.reader({CLUSTER: start})
        await log.append(numbered(1, first=100))
        found = await read(reader, 101 - start)
        assert [(record.offset, int(record.value)) for record in found] == [(n, n) for n in range(start, 101)]
        await reader.close()

    async def test_readers_do_not_disturb_each_other(self, log: Log) -> None:
        """Each reader has a position of its own."""
        await log.append(numbered(10))
        first, second = log.reader({CLUSTER: 0}), log.reader({CLUSTER: 0})
        assert values(await read(first, 10)) == values(await read(second, 10))
        await first.close()
        await log.append(numbered(1, first=10))
        assert values(await read(second, 1)) == [b"10"]
        await second.close()

    async def test_another_handle_reads_what_was_kept(self, log: Log, reopen: Reopen) -> None:
        """Once an append has returned, every handle that is opened afterwards finds the records."""
        await log.append(numbered(3))
        other = await reopen()
        assert values(await read_all(other, CLUSTER)) == [b"0", b"1", b"2"]
        await other.close()

    async def test_a_poll_at_the_end_comes_back_with_nothing(self, log: Log) -> None:
        """Where nothing comes in time, a poll gives nothing and does not raise, however often."""
        reader = log.reader({CLUSTER: 0, LOSS[0]: 0})
        for _ in range(3):
            assert list(await reader.poll(timeout_s=NO_WAIT_S)) == []
        await reader.close()

    @pytest.mark.parametrize("by_another_handle", [False, True])
    async def test_a_waiting_poll_wakes_for_a_record(
        self, log: Log, reopen: Reopen, *, by_another_handle: bool
    ) -> None:
        """A reader that waits at its end gets the next record of any of its partitions, from any writer."""
        writer = await reopen() if by_another_handle else log
        reader = log.reader(dict.fromkeys(LOSS, 0))
        for number, at in enumerate((LOSS[2], LOSS[0], LOSS[2])):
            waiting = asyncio.create_task(reader.poll(timeout_s=PATIENCE_S))
            await asyncio.wait({waiting}, timeout=NO_WAIT_S)
            await writer.append([new(str(number).encode(), at)])
            async with asyncio.timeout(PATIENCE_S / 2):
                assert values(await waiting) == [str(number).encode()]
        await reader.close()
        if by_another_handle:
            await writer.close()

    async def test_cancelling_a_poll_loses_nothing(self, log: Log) -> None:
        """However often and whenever a poll is cancelled, the next one returns what it would have returned."""
        reader = log.reader(dict.fromkeys(LOSS[:2], 0))
        found: list[Record] = []

        async def poll(steps: int) -> None:
            polling = asyncio.create_task(reader.poll(max_records=3, timeout_s=PATIENCE_S))
            for _ in range(steps):
                await asyncio.sleep(0)
            polling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                found.extend(await polling)

        for turn in range(60):
            await poll(turn % 6)
            await log.append([new(str(turn).encode(), LOSS[turn % 2])])
            await poll(turn % 5)
        found.extend(await read(reader, 60 - len(found)))
        for parity, at in enumerate(LOSS[:2]):
            assert [int(record.value) for record in found if record.at == at] == list(range(parity, 60, 2))
        await reader.close()

    async def test_a_busy_partition_does_not_starve_another(self, log: Log) -> None:
        """A record in a quiet partition comes although another partition always has more than a poll takes."""
        await log.append(numbered(500, LOSS[0]))
        await log.append([new(b"quiet", LOSS[1])])
        reader = log.reader(dict.fromkeys(LOSS, 0))
        seen: list[bytes] = []
        async with asyncio.timeout(PATIENCE_S):
            while b"quiet" not in seen:
                await log.append(numbered(50, LOSS[0]))
                seen += values(await reader.poll(max_records=20))
        await reader.close()

    async def test_polling_lets_others_run(self, log: Log) -> None:
        """A reader that always finds something still gives the other tasks of the event loop their turns."""
        await log.append(numbered(50))
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(others())
        reader = log.reader({CLUSTER: 0})
        await read(reader, 50, max_records=1)
        other.cancel()
        assert turns >= 50
        await reader.close()

    async def test_a_position_beyond_the_end_is_of_another_log(self, log: Log) -> None:
        """A log only grows: who asks for an offset beyond the end has it from a log that is no more."""
        await log.append(numbered(3))
        reader = log.reader({CLUSTER: 4})
        with pytest.raises(LogEpochError, match="cluster/0"):
            await reader.poll(timeout_s=NO_WAIT_S)
        await reader.close()

    # --- closing -------------------------------------------------------------------------------------------------

    async def test_a_closed_handle_takes_nothing_more(self, log: Log, reopen: Reopen) -> None:
        """A closed handle refuses appends, closing it again is nothing, and other handles go on."""
        other = await reopen()
        await other.append([new()])
        await other.close()
        await other.close()
        with pytest.raises(LogUnavailableError):
            await other.append([new()])
        assert list(await log.append([new()])) == [1]

    async def test_a_closed_reader_gives_nothing_more(self, log: Log) -> None:
        """A closed reader refuses to poll, and closing it again is nothing."""
        await log.append(numbered(1))
        reader = log.reader({CLUSTER: 0})
        await reader.close()
        await reader.close()
        with pytest.raises(LogUnavailableError):
            await reader.poll(timeout_s=NO_WAIT_S)

    @pytest.mark.parametrize("turns", range(12))
    async def test_a_cancelled_close_is_cancelled(self, log: Log, turns: int) -> None:
        """However far a reader's close has come, its caller learns that it was cancelled, and does not go on."""
        reader = log.reader({CLUSTER: 0})
        await reader.poll(timeout_s=NO_WAIT_S)
        closing = asyncio.create_task(reader.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        if closing.cancel():
            with pytest.raises(asyncio.CancelledError):
                await closing
        await reader.close()
