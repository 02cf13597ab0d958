"""One file read from place to place: nothing lost, nothing under two numbers, and times that never go back."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.harness.virtual_time import START_MS, VirtualClock
from tests.harness.waiting import until

from steepest.collector import source
from steepest.collector.source import PIECE_BYTES, STORE_EVERY_S, Source, numbered, read_cursor
from steepest.events.received import is_number
from steepest.training_logs.reader import LogReader
from steepest.training_logs.records import LossRecord


class Reading:
    """A source that is read, and everything that it brought: number, step and time."""

    def __init__(self, folder: Path, *, log_format: str = "steepest-sdk", file: str = "reports.jsonl") -> None:
        self.stop = asyncio.Event()
        self.found: list[tuple[tuple[str, int], int | None, int]] = []
        kept = folder / "kept" / "reports"
        self.source = Source(
            folder / file, kept, stop=self.stop, clock=VirtualClock(), below=folder, log_format=log_format, metric=None
        )
        self._task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for records in self.source.batches():
            self._note(records)

    def _note(self, records: Sequence[LossRecord]) -> None:
        stream = self.source.stream("s")
        self.found += [((stream, numbered(one)), one.step, self.source.time_of(one)) for one in records]

    @property
    def steps(self) -> list[int | None]:
        """The steps found, in order."""
        return [step for _, step, _ in self.found]

    async def end(self) -> None:
        """Read to the end."""
        self.stop.set()
        await self._task

    async def crash(self) -> None:
        """Stop where it is, without another word."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def report(folder: Path, *steps: int, at_ms: int | None = None, file: str = "reports.jsonl") -> None:
    """Report some steps, all at one time."""
    with (folder / file).open("a") as reports:
        for step in steps:
            time = {} if at_ms is None else {"at_ms": at_ms}
            reports.write(json.dumps({"step": step, "metrics": {"loss": 1 / step}, **time}) + "\n")


async def test_a_source_is_read_to_its_end(tmp_path: Path) -> None:
    """Everything that is in the file once it is complete is found, in order, under rising numbers."""
    reading = Reading(tmp_path)
    report(tmp_path, 1, 2)
    await until(lambda: reading.steps == [1, 2])
    report(tmp_path, 3)
    await reading.end()
    numbers = [number for number, _, _ in reading.found]

    assert reading.steps == [1, 2, 3]
    assert numbers == sorted(set(numbers))


async def test_after_a_crash_what_was_not_kept_is_read_again_under_the_same_numbers(tmp_path: Path) -> None:
    """Nothing is lost, and what comes again is recognised by its number."""
    clock = VirtualClock()
    first = Reading(tmp_path)
    report(tmp_path, 1)
    await until(lambda: first.steps == [1])
    await clock.sleep(STORE_EVERY_S + 1)
    report(tmp_path, 2)
    await until(lambda: first.steps == [1, 2])
    report(tmp_path, 3, 4)
    await until(lambda: first.steps == [1, 2, 3, 4])
    await first.crash()
    report(tmp_path, 5)
    second = Reading(tmp_path)
    await second.end()
    known = {number: step for number, step, _ in first.found}

    assert second.steps == [3, 4, 5]
    assert {number: step for number, step, _ in second.found if step != 5}.items() <= known.items()
    assert second.found[-1][0] > max(known)


async def test_what_was_read_to_its_end_is_not_read_again(tmp_path: Path) -> None:
    """A source that is done stays done, however often it is opened."""
    report(tmp_path, 1, 2)
    first = Reading(tmp_path)
    await first.end()
    second = Reading(tmp_path)
    await second.end()

    assert first.steps == [1, 2]
    assert second.steps == []


async def test_numbers_rise_over_a_rotation(tmp_path: Path) -> None:
    """A file that follows another one begins at its first byte again, and its records are new all the same.

    A number over all files would have more digits than readers believe, so each file has a stream of its own.
    """
    reading = Reading(tmp_path, log_format="auto", file="output.log")
    output = tmp_path / "output.log"
    output.write_text("".join(f"step {step} loss: {1 / step:.4f}\n" for step in range(1, 40)) + "step 40 loss: 0.0250")
    await until(lambda: len(reading.steps) == 39)
    output.rename(tmp_path / "output.log.1")
    output.write_text("".join(f"step {step} loss: {1 / step:.4f}\n" for step in range(41, 45)))
    await until(lambda: len(reading.steps) >= 44)
    await reading.end()
    numbers = [number for number, _, _ in reading.found]

    assert reading.steps == list(range(1, 45))
    assert numbers == sorted(set(numbers))
    assert dict.fromkeys(stream for stream, _ in numbers) == {"s": None, "s.1": None}
    assert all(is_number(str(number)) for _, number in numbers)


async def test_reports_have_the_time_at_which_they_were_made(tmp_path: Path) -> None:
    """A backlog that is read late keeps its times."""
    for step in (1, 2, 3):
        report(tmp_path, step, at_ms=START_MS - 60_000 + 1_000 * step)
    reading = Reading(tmp_path)
    await reading.end()

    assert [time - START_MS for _, _, time in reading.found] == [-59_000, -58_000, -57_000]


@pytest.mark.parametrize(
    ("said", "given"),
    [
        ([100, 50, 200], [100, 100, 200]),
        ([100, 10**15, 200], [100, 0, 0]),
        ([100, None, 100], [100, 0, 0]),
        ([100, -(10**15), 200], [100, 0, 0]),
    ],
)
async def test_times_never_go_back_and_never_ahead(tmp_path: Path, said: list[int | None], given: list[int]) -> None:
    """A reported time before the last one counts as the last, and one in the future as now (0)."""
    for step, ago in enumerate(said, 1):
        report(tmp_path, step, at_ms=None if ago is None else START_MS - 1_000 + ago)
    reading = Reading(tmp_path)
    await reading.end()
    times = [time - START_MS for _, _, time in reading.found]

    assert [time + 1_000 if time else 0 for time in times] == given
    assert all(before <= after for before, after in itertools.pairwise(times))


async def test_times_do_not_go_back_over_a_restart(tmp_path: Path) -> None:
    """The newest time is kept with the place."""
    report(tmp_path, 1, at_ms=START_MS)
    first = Reading(tmp_path)
    await until(lambda: first.steps == [1])
    await VirtualClock().sleep(STORE_EVERY_S + 1)
    report(tmp_path, 2, at_ms=START_MS + 1_000)
    await until(lambda: first.steps == [1, 2])
    await VirtualClock().sleep(0.1)
    await first.crash()
    report(tmp_path, 3, at_ms=START_MS)
    second = Reading(tmp_path)
    await second.end()

    assert [time - START_MS for _, _, time in second.found][-1] == 1_000


async def test_an_unknown_format_is_recognised_instead(tmp_path: Path) -> None:
    """A job whose user names a format that there is none of is read all the same."""
    (tmp_path / "output.log").write_text("".join(f"step {step} loss: {1 / step:.4f}\n" for step in range(1, 4)))
    reading = Reading(tmp_path, log_format="kerass", file="output.log")
    await reading.end()

    assert reading.steps == [1, 2, 3]


async def test_a_place_that_cannot_be_read_begins_anew(tmp_path: Path) -> None:
    """A damaged place costs reading again, and nothing else."""
    report(tmp_path, 1, 2)
    first = Reading(tmp_path)
    await first.end()
    kept = tmp_path / "kept" / "reports"
    assert read_cursor(kept) is not None
    kept.write_bytes(b"\x00nonsense")
    second = Reading(tmp_path)
    await second.end()

    assert second.found == first.found


async def test_a_clock_that_was_ahead_takes_its_reports_back(tmp_path: Path) -> None:
    """What was said under the wrong time keeps it; what comes once the clock is right has the right one."""

    class Ahead(VirtualClock):
        by_ms = 10**9

        def now_ms(self) -> int:
            return super().now_ms() + self.by_ms

    clock = Ahead()
    kept, stop = tmp_path / "kept" / "reports", asyncio.Event()
    source = Source(
        tmp_path / "reports.jsonl",
        kept,
        stop=stop,
        clock=clock,
        below=tmp_path,
        log_format="steepest-sdk",
        metric=None,
    )
    record = LossRecord(1, 1, 0, 1, False, None, "loss", 0.5, "train", "steepest-sdk")  # noqa: FBT003

    assert source.time_of(record) == clock.now_ms()
    clock.by_ms = 0
    assert source.time_of(record) == clock.now_ms()


async def test_other_tasks_have_turns_while_much_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that floods its output delays no heartbeat: between two pieces everything else that is ready runs."""
    turns, fed = 0, []
    feed = LogReader.feed

    def feed_and_note(reader: LogReader, chunk: bytes) -> list[LossRecord]:
        fed.append((turns, len(chunk)))
        return feed(reader, chunk)

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    monkeypatch.setattr(LogReader, "feed", feed_and_note)
    lines = "".join(f"step {step} loss: {1 / step:.4f}\n" for step in range(1, 3_001))
    (tmp_path / "output.log").write_text(lines)
    other = asyncio.ensure_future(take_turns())
    reading = Reading(tmp_path, log_format="auto", file="output.log")
    await reading.end()
    other.cancel()

    assert reading.steps == list(range(1, 3_001))
    assert sum(length for _, length in fed) == len(lines) > 10 * PIECE_BYTES
    assert max(length for _, length in fed) <= PIECE_BYTES
    assert all(before < after for (before, _), (after, _) in itertools.pairwise(fed))


async def test_what_is_held_back_is_read_when_nothing_more_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first lines of a log wait for more, but not for ever: a job that prints rarely is read while it runs."""
    monkeypatch.setattr(source, "HELD_S", 0.05)
    reading = Reading(tmp_path, log_format="auto", file="output")
    (tmp_path / "output").write_text("starting\nstep 7 | loss 0.25\n")
    await until(lambda: len(reading.steps) == 1)
    with (tmp_path / "output").open("a") as file:
        file.write("step 8 | loss 0.125\n")
    await until(lambda: reading.steps[-1:] == [8])
    await reading.end()

    assert reading.steps == [7, 8]
