"""What is left of an epoch, by the bytes that were read of it: late epochs, other readers, counts that cannot be right."""

from __future__ import annotations

import pytest
from tests.harness.scenarios.folded_pool import START_MS, FoldedPool, placement, submitted

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.policies.pickyman.reading import AHEAD_MS, JOBS_KEPT, LOST_AFTER, STALE_MS, Readings

LOAD, EPOCH, PAUSE_MS = 4_000_000, 20_000_000, 3_000
READ_MS = 10_000
"""An epoch is read with 2,000 bytes a millisecond; the pause at its end comes then."""

RATE = EPOCH // READ_MS


class ReadingJob:
    """A job whose counts are fed to the readings second by second."""

    def __init__(self, job: str = "a", readings: Readings | None = None, data_bytes: int = EPOCH, replicas: int = 1):
        self.pool = FoldedPool(n1=1_000)
        self.readings = readings or Readings()
        self.name, self.ended = job, 0
        roles = (c.Role(name="worker", replicas=replicas, requests=Resources(cpu_m=100)),) if replicas > 1 else ()
        self.pool.fold(c.PoolConfigured(parameters=PoolParameters()))
        self.pool.feed(
            submitted(job, model="m", data_bytes=data_bytes, roles=roles), placement(job, *["n1"] * replicas)
        )
        self.pool.carry_out(job)

    def see(self, event: c.ClusterEvent) -> None:
        """A record."""
        if self.pool.fold(event):
            self.readings.observe(self.pool.view, event, self.pool.now_ms)

    def count(self, read: int | None, after_ms: int = 1_000, replica: int = 0) -> None:
        """A node's count, some time after the one before."""
        self.pool.now_ms += after_ms
        found = c.ReplicaProgress(self.name, self.pool.job(self.name).incarnation, replica, read_bytes=read)
        self.see(c.NodeUsage(node="n1", used=Resources(), progress=(found,)))

    def read(self, begin: int, ms: int, rate: int = RATE) -> int:
        """Counts each second of reading; the last count."""
        for second in range(1, ms // 1_000 + 1):
            self.count(begin + second * 1_000 * rate)
        return begin + ms * rate

    def end_epoch(self, number: int, read: int, epoch_bytes: int = EPOCH, ended_ms: int | None = None) -> None:
        """The end of an epoch, and its pause, are measured now."""
        self.ended = number
        self.see(
            c.EpochMeasured(
                job=self.name,
                incarnation=self.pool.job(self.name).incarnation,
                epoch=number,
                epoch_ms=READ_MS + PAUSE_MS,
                epoch_bytes=epoch_bytes,
                read_bytes=read,
                ended_ms=self.pool.now_ms if ended_ms is None else ended_ms,
                load_bytes=LOAD,
                load_ms=2_000,
            )
        )

    def whole_epoch(self, number: int, begin: int) -> int:
        """An epoch with its pause."""
        read = self.read(begin, READ_MS)
        for _ in range(PAUSE_MS // 1_000):
            self.count(read)
        self.end_epoch(number, read)
        return read

    @property
    def left_ms(self) -> int | None:
        """What is left of the epoch."""
        return self.readings.left_ms(self.pool.job(self.name), self.pool.now_ms)


@pytest.fixture
def profiled() -> ReadingJob:
    """A job at the beginning of its fourth epoch."""
    job = ReadingJob()
    read = LOAD
    job.count(0)
    job.count(read)
    for number in (1, 2, 3):
        read = job.whole_epoch(number, read)
    return job


BEGUN = LOAD + 3 * EPOCH


def test_before_an_epoch_was_measured_nothing_is_known() -> None:
    """However much was read."""
    job = ReadingJob()
    job.read(0, 8_000)
    assert job.left_ms is None


@pytest.mark.parametrize("is_seen", [True, False])
def test_the_pause_is_known_with_the_first_epoch(*, is_seen: bool) -> None:
    """Whether the count that ends it stands in the log before the measured epoch, or behind it."""
    job = ReadingJob()
    job.count(0)
    job.count(LOAD)
    read = job.read(LOAD, READ_MS)
    job.count(read, PAUSE_MS - 500)
    if is_seen:
        ended_ms = job.pool.now_ms + 500
        job.count(read + RATE * 500)
        job.end_epoch(1, read, ended_ms=ended_ms)
        job.count(read + RATE * 4_000, 3_500)
    else:
        job.pool.now_ms += 500
        job.end_epoch(1, read)
        job.read(read, 4_000)

    assert job.left_ms == pytest.approx(READ_MS - 4_000 + PAUSE_MS, rel=0.02)


@pytest.mark.parametrize("seconds", [1, 4, 9])
def test_bytes_say_what_is_left_and_the_pause_comes_then(profiled: ReadingJob, seconds: int) -> None:
    """At the usual rate."""
    profiled.read(BEGUN, seconds * 1_000)
    assert profiled.left_ms == pytest.approx(READ_MS - seconds * 1_000 + PAUSE_MS, rel=0.02)


def test_a_late_epoch_is_not_taken_for_the_next_one(profiled: ReadingJob) -> None:
    """Its last tenth comes after more than the mean length of an epoch: little is left, and not a whole epoch."""
    read = profiled.read(BEGUN, 9_000)
    for _ in range(8):
        profiled.count(read + 1_000)
    assert profiled.pool.now_ms - START_MS > 4 * (READ_MS + PAUSE_MS)
    assert profiled.left_ms is not None
    assert PAUSE_MS < profiled.left_ms < PAUSE_MS + READ_MS / 2


def test_the_pause_at_the_end_runs_out_and_lasts_until_the_next_epoch_is_read(profiled: ReadingJob) -> None:
    """A pause that is longer than usual may end at any time; bytes of the next epoch begin it, measured or not."""
    read = profiled.read(BEGUN, READ_MS)
    lefts: list[int] = []
    for _ in range(6):
        profiled.count(read)
        left = profiled.left_ms
        assert left is not None
        lefts.append(left)
    assert lefts == sorted(lefts, reverse=True)
    assert lefts[0] == pytest.approx(PAUSE_MS - 1_000, abs=600)
    assert lefts[-1] == 0
    profiled.read(read, 3_000)
    assert profiled.left_ms == pytest.approx(READ_MS - 3_000 + PAUSE_MS, rel=0.1)


def test_the_rate_is_that_which_is_left_beside_other_readers(profiled: ReadingJob) -> None:
    """Half the bandwidth goes to another job."""
    profiled.read(BEGUN, 6_000, RATE // 2)
    assert profiled.left_ms == pytest.approx((EPOCH - 6_000 * RATE // 2) / (RATE / 2) + PAUSE_MS, rel=0.15)


def test_another_job_of_the_model_is_known_by_its_announced_size(profiled: ReadingJob) -> None:
    """It has half the data, and has ended no epoch yet."""
    other = ReadingJob("b", profiled.readings, EPOCH // 2)
    other.count(0)
    other.count(LOAD)
    other.read(LOAD, 2_000)
    assert other.left_ms == pytest.approx(READ_MS / 2 - 2_000 + PAUSE_MS, rel=0.05)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("reset", 1_000),
        ("wrapped", (BEGUN + 5_000 * RATE) % 2**26),
        ("jumped", BEGUN + EPOCH + 6_000 * RATE),
        ("jumped far", BEGUN + 10 * LOST_AFTER * EPOCH),
    ],
)
def test_a_count_that_cannot_be_right_says_nothing(profiled: ReadingJob, name: str, count: int) -> None:
    """What is left is unknown then, and not 0."""
    read = profiled.read(BEGUN, 4_000)
    profiled.count(count)
    assert profiled.left_ms is None, name
    profiled.read(max(count, 0), 2_000)
    assert profiled.left_ms is None, (name, read)


def test_after_a_jump_the_next_measured_end_says_where_the_job_is(profiled: ReadingJob) -> None:
    """The profiler takes it for bytes as well."""
    profiled.count(BEGUN + 2 * EPOCH)
    assert profiled.left_ms is None
    profiled.end_epoch(5, BEGUN + 2 * EPOCH)
    profiled.read(BEGUN + 2 * EPOCH, 5_000)
    assert profiled.left_ms == pytest.approx(READ_MS - 5_000 + PAUSE_MS, rel=0.1)


def test_a_count_that_stays_away_says_nothing_after_a_while(profiled: ReadingJob) -> None:
    """The node counts no more, or there are no heartbeats."""
    profiled.read(BEGUN, 4_000)
    for _ in range(STALE_MS // 1_000):
        profiled.count(None)
    assert profiled.left_ms is not None
    profiled.count(None)
    assert profiled.left_ms is None


def test_of_a_gang_all_replicas_are_counted() -> None:
    """Until each has a count, nothing is known."""
    job = ReadingJob(replicas=2)
    for number in (1, 2, 3):
        level = LOAD + (number - 1) * EPOCH
        for second in range(1, READ_MS // 1_000 + 1):
            for replica in (0, 1):
                job.count((level + second * 1_000 * RATE) // 2, 500, replica)
        job.pool.now_ms += PAUSE_MS
        job.end_epoch(number, LOAD + number * EPOCH)
    job.count((BEGUN + 5_000 * RATE) // 2, 2_500, 0)
    job.count((BEGUN + 5_000 * RATE) // 2, 2_500, 1)
    assert job.left_ms == pytest.approx(READ_MS - 5_000 + PAUSE_MS, rel=0.1)
    alone = ReadingJob("b", job.readings, replicas=2)
    alone.count(LOAD, replica=1)
    assert alone.left_ms is None


def test_between_counts_the_job_reads_on(profiled: ReadingJob) -> None:
    """At its rate, for a short time; then it may stand still."""
    profiled.read(BEGUN, 4_000)
    first = profiled.left_ms
    profiled.pool.now_ms += 1_500
    assert first is not None
    assert profiled.left_ms == first - 1_500
    profiled.pool.now_ms += 5_000
    assert profiled.left_ms == first - AHEAD_MS


def test_an_end_that_was_to_come_since_the_newest_count_has_come(profiled: ReadingJob) -> None:
    """The next epoch is under way, unless a count says that it is not: then the end is late."""
    read = profiled.read(BEGUN, READ_MS)
    profiled.count(read, PAUSE_MS - 1_000)
    lefts = []
    for later_ms in (900, 150, 150, 800):
        profiled.pool.now_ms += later_ms
        lefts.append(profiled.left_ms)
    profiled.count(read, 100)

    whole_ms = READ_MS + PAUSE_MS
    assert lefts == [100, 0, whole_ms - 200, whole_ms - 1_000]
    assert profiled.left_ms == 0


def test_a_job_that_is_over_is_forgotten(profiled: ReadingJob) -> None:
    """What is known of its epochs is kept for others, and that is bounded."""
    profiled.see(profiled.pool.stopped("a"))
    profiled.see(c.JobEnded(job="a", outcome=c.Outcome.FINISHED, exit_status=0))
    assert profiled.readings.running == {}
    assert JOBS_KEPT >= len(profiled.readings.jobs) == 1
