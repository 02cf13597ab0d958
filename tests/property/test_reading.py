"""What is left of an epoch is never more than one, falls as bytes come, and depends on nothing that a job says."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.harness.scenarios.folded_pool import FoldedPool

from steepest.events import cluster as c
from steepest.events.common import LARGEST, Resources
from steepest.policies.pickyman.overheads import Overheads
from steepest.policies.pickyman.profiler_epochs import slack
from steepest.policies.pickyman.reading import POINTS_KEPT, SLOWEST, Readings

EPOCH_MS = 10_000
bytes_of = st.integers(1_000_000, 10**11)


class Counted(FoldedPool):
    """A job whose first epoch was measured, and its readings."""

    def __init__(self, epoch_bytes: int) -> None:
        super().__init__(n1=1_000)
        self.readings = Readings()
        self.run("a", "n1")
        self.count(0)
        self.now_ms += EPOCH_MS
        self.epoch(1, epoch_bytes, epoch_bytes)

    def see(self, event: c.ClusterEvent) -> None:
        """A record."""
        if self.fold(event):
            self.readings.observe(self.view, event, self.now_ms)

    def count(self, read: int | None, after_ms: int = 1_000, **said: int) -> None:
        """A count, some time after the record before."""
        self.now_ms += after_ms
        found = msgspec.structs.replace(c.ReplicaProgress("a", 1, read_bytes=read), **said)
        self.see(c.NodeUsage(node="n1", used=Resources(), progress=(found,)))

    def epoch(self, number: int, epoch_bytes: int, read: int) -> None:
        """An epoch has ended now."""
        event = c.EpochMeasured(
            job="a",
            incarnation=1,
            epoch=number,
            epoch_ms=EPOCH_MS,
            epoch_bytes=epoch_bytes,
            read_bytes=read,
            ended_ms=self.now_ms,
            load_bytes=0,
        )
        self.see(event)

    @property
    def left_ms(self) -> int | None:
        """What is left."""
        return self.readings.left_ms(self.job("a"), self.now_ms)


@given(bytes_of, st.lists(st.floats(0, 0.3), min_size=1, max_size=30), st.integers(500, 3_000))
def test_it_falls_as_bytes_come_and_is_never_more_than_an_epoch(
    epoch_bytes: int, shares: Sequence[float], gap_ms: int
) -> None:
    """At a steady rate it falls; at any rate, it is bounded by an epoch at the slowest rate that is believed."""
    pool, read = Counted(epoch_bytes), epoch_bytes
    for share in shares:
        more = round(share * epoch_bytes)
        if read + more > 2 * epoch_bytes:
            break
        read += more
        pool.count(read, gap_ms)
        assert pool.left_ms is not None
        assert 0 <= pool.left_ms <= SLOWEST * EPOCH_MS
    steady, read = Counted(epoch_bytes), epoch_bytes
    lefts = []
    for _ in range(9):
        read += epoch_bytes // 10
        steady.count(read, EPOCH_MS // 10)
        lefts.append(steady.left_ms)
    assert lefts == sorted(lefts, key=lambda left: -(left or 0))
    assert all(left is not None and abs(left - EPOCH_MS * (9 - at) / 10) <= 50 for at, left in enumerate(lefts))


@given(bytes_of, st.floats(0.1, 0.9), st.lists(st.integers(100, 4_000), min_size=1, max_size=40))
def test_time_alone_begins_no_epoch(epoch_bytes: int, share: float, waits: Sequence[int]) -> None:
    """However long no byte comes: what is left is that of this epoch, for the bytes that are missing."""
    pool = Counted(epoch_bytes)
    read = epoch_bytes + round(share * epoch_bytes)
    pool.count(read)
    for wait_ms in waits:
        pool.count(read, wait_ms)
        assert pool.left_ms is not None
        assert pool.left_ms <= SLOWEST * EPOCH_MS * (1 - share) + 1


@given(bytes_of, st.floats(0.2, 0.9), st.one_of(st.floats(0, 0.99), st.floats(2.5, 1e6)))
def test_a_reset_a_wrap_and_a_jump_are_unknown(epoch_bytes: int, share: float, factor: float) -> None:
    """A count that falls, by any amount, and one that rises by more than an epoch."""
    pool = Counted(epoch_bytes)
    before = epoch_bytes + round(share * epoch_bytes)
    pool.count(before)
    wrong = min(round(before * factor), LARGEST)
    assume(wrong < before or wrong - before > epoch_bytes + slack(epoch_bytes))
    pool.count(wrong)
    assert pool.left_ms is None
    pool.count(min(wrong + epoch_bytes // 20, LARGEST))
    assert pool.left_ms is None


@given(
    bytes_of,
    st.lists(
        st.tuples(st.integers(-2_000, 20_000), st.none() | st.integers(0, 10**12) | st.integers(0, LARGEST)),
        max_size=60,
    ),
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 10**12)), max_size=5),
)
def test_no_count_breaks_it_and_a_snapshot_goes_on(
    epoch_bytes: int, counts: Sequence[tuple[int, int | None]], ends: Sequence[tuple[int, int]]
) -> None:
    """Counts and clocks that go anywhere; what is kept is bounded, and survives a snapshot."""
    pool = Counted(epoch_bytes)
    at = dict(ends)
    for number, (after_ms, count) in enumerate(counts, 2):
        pool.count(count, after_ms)
        if number in at:
            pool.epoch(number, epoch_bytes, at[number])
        left = pool.left_ms
        assert left is None or left >= 0
        overheads = Overheads(readings=pool.readings)
        again = msgspec.msgpack.decode(msgspec.msgpack.encode(overheads), type=Overheads)
        assert again == overheads
        assert again.readings.left_ms(pool.job("a"), pool.now_ms) == left
    assert all(len(one.points) <= POINTS_KEPT for one in pool.readings.running.values())


@given(bytes_of, st.lists(st.floats(0, 0.09), min_size=1, max_size=10), st.integers(0, LARGEST), st.integers(0, 10**6))
def test_what_a_job_says_changes_nothing(epoch_bytes: int, shares: Sequence[float], step: int, total: int) -> None:
    """Steps and totals that are not so."""
    honest, lying, read = Counted(epoch_bytes), Counted(epoch_bytes), epoch_bytes
    for share in shares:
        read += round(share * epoch_bytes)
        honest.count(read)
        lying.count(read, step=step, total=total)
        assert honest.left_ms == lying.left_ms
