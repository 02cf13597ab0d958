"""What a container printed is kept once, in order and within bounds, however often its copying is cut off."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.set_clock import SetClock
from tests.harness.waiting import until

from steepest import flock
from steepest.cluster import output_copy
from steepest.cluster.copy_pace import CopyPace
from steepest.cluster.docker import output
from steepest.cluster.docker.host import Host
from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder, SpecRecord
from steepest.cluster.kubernetes.output import TimedLines
from steepest.cluster.local import supervisor
from steepest.cluster.output_copy import MISSING, OutputCopy
from steepest.cluster.port import ReplicaId
from steepest.untrusted.allowance import OUTPUT_BURST_BYTES, OUTPUT_BYTES_S

from .conftest import SetPace

Line = tuple[str, bytes]


class CutOffError(Exception):
    """The adapter died here."""


def at(ms: int) -> str:
    """A time as an engine writes it."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%S.%f}000Z"


def numbered(count: int, size: int = 0) -> list[Line]:
    """Lines, one a millisecond."""
    return [(at(number), b"%d %s\n" % (number, b"x" * size)) for number in range(count)]


def opened(folder: IncarnationFolder) -> OutputCopy:
    """The copy, which no other process has."""
    copy = OutputCopy.locked(folder, 0.0)
    assert copy is not None
    return copy


def copied(folder: IncarnationFolder, lines: list[Line], *, most: int | None = None) -> None:
    """Begin to copy what an engine keeps, up to so many of the lines that it sends."""
    with contextlib.closing(opened(folder)) as copy:
        since = copy.begin()
        sent = [line for line in lines if since is None or datetime.fromisoformat(line[0]).timestamp() >= since]
        for each in sent[:most]:
            copy.add(*each)


def kept(folder: IncarnationFolder) -> bytes:
    """What both files have."""
    files = (folder.output.with_name("output.log.1"), folder.output)
    return b"".join(file.read_bytes() for file in files if file.exists())


def texts(lines: list[Line]) -> bytes:
    """What was printed."""
    return b"".join(text for _, text in lines)


@pytest.fixture
def folder(tmp_path: Path) -> IncarnationFolder:
    """The folder of an incarnation that prints."""
    return made(tmp_path)


def made(path: Path) -> IncarnationFolder:
    """The folder of an incarnation."""
    found = AdapterFolder(path).incarnation(ReplicaId("mnist"), 1)
    found.make(SpecRecord(node="a", command=("x",)))
    return found


def two_streams(lot: random.Random) -> list[Line]:
    """Lines of two streams as an engine keeps them: long ones in pieces of one time, between which others come."""
    waiting: list[list[Line]] = [[], []]
    found, now = [], 1_000
    for number in range(lot.randrange(1, 60)):
        stream = waiting[lot.randrange(2)]
        if not stream:
            pieces = lot.choice([1, 1, 1, 2, 4])
            early = at(now - lot.choice([0, 0, 1]))  # it was printed first and is kept second
            stream += [(early, b"%d.%d" % (number, piece) + b"y" * lot.randrange(30)) for piece in range(pieces)]
            stream[-1] = (early, stream[-1][1] + b"\n")
            now += lot.randrange(2, 300)
        found.append(stream.pop(0))
    return found


LONG = [
    (at(1_000), b"out 1\n"),
    (at(2_000), b"err, piece 1, "),
    (at(3_000), b"out 2\n"),
    (at(2_000), b"piece 2, "),
    (at(4_000), b"out 3\n"),
    (at(3_990), b"out 4, printed before out 3\n"),
    (at(2_000), b"piece 3\n"),
    (at(5_000), b"out 5\n"),
    (at(6_000), b"out 6, piece 1, "),
    (at(6_000), b"piece 2"),
]
"""A line of one stream goes on for seconds while others come, and two are not in the order of their times."""


@pytest.mark.parametrize("most", [40, 1_000])
@pytest.mark.parametrize("first", range(len(LONG)))
def test_cut_off_anywhere_it_goes_on_there(
    folder: IncarnationFolder, monkeypatch: pytest.MonkeyPatch, first: int, most: int
) -> None:
    """Twice, behind any two lines, with and without new files in between."""
    monkeypatch.setattr(output_copy, "OUTPUT_BYTES_MOST", most)
    for second in range(first, len(LONG)):
        at_place = made(folder.path / str(second))
        for cut in (first, second, len(LONG), len(LONG)):
            copied(at_place, LONG[:cut])

        assert texts(LONG).endswith(kept(at_place))
        assert len(kept(at_place)) > min(most // 2, len(texts(LONG)) - 1)


@given(lot=st.randoms(use_true_random=False))
def test_every_byte_is_kept_once(lot: random.Random, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whether an adapter stopped between two lines, in the middle of a line, or before it noted how far it was."""
    folder, lines = made(tmp_path_factory.mktemp("job")), two_streams(lot)
    write, note = os.write, OutputCopy._note

    def torn(file: int, text: bytes) -> int:
        if lot.random() < 0.1:
            write(file, text[: lot.randrange(len(text) + 1)])
            raise CutOffError
        return write(file, text)

    def unnoted(self: OutputCopy, position: output_copy.CopyPosition) -> None:
        if lot.random() < 0.1:
            raise CutOffError
        note(self, position)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", torn)
        patch.setattr(OutputCopy, "_note", unnoted)
        for _ in range(lot.randrange(6)):
            with contextlib.suppress(CutOffError):
                copied(folder, lines[: lot.randrange(len(lines) + 1)], most=lot.randrange(1, 40))
    copied(folder, lines)
    copied(folder, lines)

    assert kept(folder) == texts(lines)


@given(lot=st.randoms(use_true_random=False))
def test_the_newest_is_kept_within_bounds(lot: random.Random, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two files of a size: also if an adapter dies while it begins the second, or a line goes on through several."""
    folder, lines = made(tmp_path_factory.mktemp("job")), two_streams(lot)
    take = incarnation_locks.take

    def dies(path: Path | str, patience_s: float, *, inside: int | None = None) -> int | None:
        if inside is not None and lot.random() < 0.3:
            raise CutOffError
        return take(path, patience_s, inside=inside)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_copy, "OUTPUT_BYTES_MOST", 100)
        patch.setattr(incarnation_locks, "take", dies)
        for _ in range(lot.randrange(10)):
            with contextlib.suppress(CutOffError):
                copied(folder, lines, most=lot.randrange(1, 40))
        patch.setattr(incarnation_locks, "take", take)
        copied(folder, lines)

    assert len(kept(folder)) <= 200
    assert len(kept(folder)) > 60 or kept(folder) == texts(lines)
    assert texts(lines).endswith(kept(folder))


def test_what_the_engine_has_removed_is_said(folder: IncarnationFolder) -> None:
    """Once, where it is missing; and nothing is kept twice."""
    lines = numbered(100)
    copied(folder, lines[:20])
    copied(folder, lines[50:70])
    copied(folder, lines[50:])

    assert kept(folder) == texts(lines[:20]) + MISSING + texts(lines[50:])


def test_what_was_removed_and_copied_is_not_missed(folder: IncarnationFolder) -> None:
    """An engine that has the newest line, and none before it, has all that is needed."""
    lines = numbered(100)
    copied(folder, lines[:20])
    copied(folder, lines[19:])

    assert kept(folder) == texts(lines)


def test_a_clock_that_is_set_back_loses_nothing(folder: IncarnationFolder) -> None:
    """Lines that seem to be older than the newest one come after it."""
    lines = [*((at(number + 3_600_000), text) for number, text in enumerate([b"a\n", b"b\n"])), *numbered(50)]
    with contextlib.closing(opened(folder)) as copy:
        copy.begin()
        for each in lines[:30]:
            copy.add(*each)
        assert copy.begin() is not None
        for each in lines:
            copy.add(*each)

    assert kept(folder) == texts(lines)


def test_what_an_engine_sends_twice_is_kept_once(folder: IncarnationFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may begin its newest file once more while it is followed, but one line is not another of the same text."""
    monkeypatch.setattr(output_copy, "_KNOWN_LINES_MOST", 50)
    lines = [(time, b"waiting\n") for time, _ in numbered(60)]
    copied(folder, [*lines[:30], *lines[20:50], *lines[49:]])
    copied(folder, [*lines[:30], *lines[20:50], *lines[49:]])

    assert kept(folder) == texts(lines)


def test_what_an_engine_says_about_the_output_is_none(folder: IncarnationFolder) -> None:
    """It comes without a time, and neither hides lines nor makes copying begin anywhere else."""
    lines = numbered(20)
    said = ("Error", b"grabbing logs: invalid character 'x' after top-level value\n")
    copied(folder, [*lines[:5], ("", b"\n"), ("2026-13", b"\n")])
    with contextlib.closing(opened(folder)) as copy:
        copy.begin()
        assert [copy.add(*each) for each in (said, *lines[4:10], said)] == [False, False, *[True] * 5, False]
    copied(folder, lines)

    assert kept(folder) == texts(lines)


def test_one_adapter_copies(folder: IncarnationFolder) -> None:
    """Another one waits for it, also one of a version that had no record beside the file."""
    with contextlib.closing(opened(folder)) as copy:
        copy.begin()
        for each in numbered(3):
            copy.add(*each)
        assert OutputCopy.locked(folder, 0.0) is None
        assert incarnation_locks.is_held(folder.output)
    with folder.output.open("a") as older:
        assert flock.try_lock(older.fileno())
        assert OutputCopy.locked(folder, 0.0) is None
    opened(folder).close()


def test_a_copy_without_a_record_goes_on_at_its_end(folder: IncarnationFolder) -> None:
    """As a version left it that kept all in one file."""
    lines = numbered(10)
    folder.output.write_bytes(texts(lines)[:25])
    copied(folder, lines)
    copied(folder, lines)

    assert kept(folder) == texts(lines)


def test_another_job_of_the_name_is_left_alone(folder: IncarnationFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that is late begins no new file in the folder that has taken the place of its own."""
    monkeypatch.setattr(output_copy, "OUTPUT_BYTES_MOST", 20)
    with contextlib.closing(opened(folder)) as copy:
        copy.begin()
        folder.path.rename(folder.path.with_name("2"))
        folder.path.mkdir()
        folder.output.write_bytes(b"another\n")
        for each in numbered(20):
            copy.add(*each)

    assert [path.name for path in folder.path.iterdir()] == ["output.log"]
    assert folder.output.read_bytes() == b"another\n"


def test_as_much_is_kept_as_of_a_local_job() -> None:
    """Where a job runs makes no difference."""
    local = (supervisor.OUTPUT_BYTES_MOST, supervisor.OUTPUT_BYTES_S, supervisor.OUTPUT_BURST_BYTES)

    assert local == (output_copy.OUTPUT_BYTES_MOST, OUTPUT_BYTES_S, OUTPUT_BURST_BYTES)


@given(lines=st.lists(st.binary(max_size=12).map(lambda text: text.replace(b"\n", b""))), lot=st.randoms())
def test_timed_lines_are_split_however_they_come(lines: list[bytes], lot: random.Random) -> None:
    """Each piece has its line's time, and all of them together are what was printed."""
    timed = [(at(number), text + b"\n") for number, text in enumerate(lines)]
    sent = b"".join(time.encode() + b" " + text for time, text in timed)
    splitter, found = TimedLines(), dict[str, bytes]()
    while sent:
        size = lot.randrange(1, 80)
        for time, piece in splitter.of(sent[:size]):
            found[time] = found.get(time, b"") + piece
        sent = sent[size:]

    assert list(found.items()) == timed


class FloodedEngine:
    """An engine whose container has printed much, and has ended."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines
        self.asked: list[float | None] = []

    def client(self, *_: object) -> FloodedEngine:
        """It is its own client."""
        return self

    def logs(self, _: str, *, since: float | None, tail: int | None = None, **__: Any) -> Any:
        """What it keeps since then."""
        self.asked.append(since)
        sent = [line for line in self.lines if since is None or datetime.fromisoformat(line[0]).timestamp() >= since]
        return Frames([time.encode() + b" " + text for time, text in sent[-(tail or len(sent)) :]])


class Frames:
    """A stream of an engine."""

    def __init__(self, frames: list[bytes]) -> None:
        self._frames = frames
        self._response = SimpleNamespace(close=lambda: None)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._frames)


async def test_a_container_that_prints_too_fast_is_read_in_pieces(
    folder: IncarnationFolder, monkeypatch: pytest.MonkeyPatch, set_pace: SetPace
) -> None:
    """It takes no more of the adapter's time than is allowed, and nothing is lost that its engine has."""
    set_pace(20_000, 10_000_000, 20_000)
    monkeypatch.setattr(output, "SystemClock", SetClock)  # time that does not pass allows no more than the burst
    engine = FloodedEngine(numbered(1_000))
    following = output.Output(cast("Host", engine), folder, "c")
    await until(lambda: following.is_over, "all is copied")

    assert kept(folder) == texts(engine.lines)
    assert len(engine.asked) > 5


def test_a_flood_that_is_left_at_the_end_delays_it_for_some_seconds(
    folder: IncarnationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too much to be copied then is missing, and said to be; the last lines are there."""
    monkeypatch.setattr(output, "_REST_S", 0.0)
    monkeypatch.setattr(output, "_LAST_LINES", 10)
    lines = numbered(1_000)
    output.complete(cast("Host", FloodedEngine(lines)), folder, "c")

    assert kept(folder) == texts(lines[:1]) + MISSING + texts(lines[-10:])


def test_what_is_there_already_counts_but_ends_no_piece(set_pace: SetPace) -> None:
    """Each piece gets further, and the pause behind it is as long as all that was looked through needs."""
    set_pace(100, 10.0, 20)
    clock = SetClock()
    pace = CopyPace(clock)
    for _ in range(2):
        pace.begin()
        found = [pace.is_enough(50, is_new=False) for _ in range(10)]
        found += [pace.is_enough(10, is_new=True) for _ in range(2)]
        assert found == [*[False] * 11, True]
        assert pace.pause_s() == (520 - 100) / 10.0 + 100 / 10.0
        clock.now_s += pace.pause_s()
