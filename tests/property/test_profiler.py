"""The profiler finds epochs in any traffic that has them, and in nothing that a job says."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled

from steepest.events.cluster import EpochMeasured
from steepest.events.common import LARGEST, Resources
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest.events.received import Received
from steepest.policies.pickyman.profiler import Profiler, ProfilerState
from steepest.policies.pickyman.profiler_trace import PAUSES_KEPT, WRAPS

BEAT_MS = 500
BEGIN_MS = 1_700_000_000_000


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """A job that loads, and then reads ``epoch_bytes`` and pauses, again and again, at changing speeds.

    Attributes:
        reads_ms: How long each epoch's reading takes.
        pause_ms: The pause after each.
        load_bytes: Read before the first epoch.
        halts: Of some epochs, the share of the epoch at which the reading halts, and for how long.
    """

    epoch_bytes: int
    reads_ms: Sequence[int]
    pause_ms: int
    load_bytes: int
    load_ms: int
    halts: dict[int, tuple[float, int]]

    def knots(self) -> list[tuple[int, int]]:
        """Times and counts between which reading is steady."""
        found = [(0, 0), (self.load_ms, self.load_bytes)]
        for number, read_ms in enumerate(self.reads_ms):
            at_ms, count = found[-1]
            share, halt_ms = self.halts.get(number, (0.5, 0))
            middle = count + round(share * self.epoch_bytes)
            reached_ms = at_ms + round(share * read_ms)
            end_ms = at_ms + read_ms + halt_ms
            found += [(reached_ms, middle), (reached_ms + halt_ms, middle), (end_ms, count + self.epoch_bytes)]
            found.append((end_ms + self.pause_ms, count + self.epoch_bytes))
        return found

    def counts(self, jitters: Sequence[int]) -> list[tuple[int, int]]:
        """Heartbeats: times and counts."""
        knots, beats, at_ms = self.knots(), [], 0
        while at_ms <= knots[-1][0]:
            beats.append((at_ms, _between(knots, at_ms)))
            at_ms += BEAT_MS + jitters[len(beats) % len(jitters)]
        return beats


def _between(knots: Sequence[tuple[int, int]], at_ms: int) -> int:
    for (from_ms, low), (until_ms, high) in pairwise(knots):
        if at_ms < until_ms:
            return low + (high - low) * (at_ms - from_ms) // (until_ms - from_ms)
    return knots[-1][1]


@st.composite
def traffic(draw: st.DrawFn, most_bytes: int = 10**11) -> Traffic:
    """A job with five epochs or more, one of which may halt, but not in the middle: that looks like an end."""
    epochs = draw(st.integers(5, 9))
    pace_ms = draw(st.integers(4_000, 20_000))
    halts = draw(
        st.dictionaries(
            st.integers(0, epochs - 1),
            st.tuples(st.floats(0.2, 0.45) | st.floats(0.55, 0.8), st.integers(1_000, 3_000)),
            max_size=1,
        )
    )
    return Traffic(
        epoch_bytes=draw(st.integers(2_000_000, most_bytes)),
        reads_ms=[round(pace_ms * draw(st.floats(0.8, 1.4))) for _ in range(epochs)],
        pause_ms=draw(st.integers(2_000, 6_000)),
        load_bytes=0,
        load_ms=0,
        halts=halts,
    )


def profiled(
    beats: Sequence[tuple[int, int | None]],
    *,
    profiler: Profiler | None = None,
    replica: ReplicaReport | None = None,
) -> list[EpochMeasured]:
    """What the profiler makes of the heartbeats of a job, and at last of its end."""
    profiler = profiler or Profiler()
    plain = replica or ReplicaReport(job="a", incarnation=1, state=ReplicaState.RUNNING)
    found = []
    for number, (at_ms, count) in enumerate(beats):
        report = msgspec.structs.replace(plain, read_bytes=count)
        beat = NodeHeartbeat(
            node="n1", pool="p", at_ms=BEGIN_MS + at_ms, capacity=Resources(), replicas=(report,), takes_jobs=True
        )
        record = Received[NodeHeartbeat](event=beat, topic="heartbeats", partition=0, offset=number, at_ms=beat.at_ms)
        for decision in profiler.step(record):
            assert isinstance(decision.event, EpochMeasured)
            assert decision.pool == "p"
            found.append(decision.event)
    return found


jitters = st.lists(st.integers(-50, 50), min_size=1, max_size=7)


@given(traffic(), jitters)
@settings(max_examples=scaled(200))
def test_epochs_are_found_whatever_the_speed_and_the_halts(some_traffic: Traffic, some: Sequence[int]) -> None:
    """Epochs, their bytes, numbers and ends are found at any speed, with halts inside of epochs."""
    found = profiled(some_traffic.counts(some))
    assert found, "no epoch was found"
    ends_ms = [at_ms for at_ms, _ in some_traffic.knots()][5::4]
    for event in found:
        assert abs(event.epoch_bytes - some_traffic.epoch_bytes) <= 0.03 * some_traffic.epoch_bytes
        # Without a load, the number of the epoch is known too.
        assert abs(event.ended_ms - BEGIN_MS - ends_ms[event.epoch - 1]) <= 2 * BEAT_MS
    assert [event.epoch for event in found] == sorted({event.epoch for event in found})
    mean_ms = (ends_ms[-1] - ends_ms[0]) / (len(ends_ms) - 1)
    assert all(0.5 * mean_ms <= event.epoch_ms <= 2.5 * mean_ms for event in found)


@given(traffic(most_bytes=10**8), jitters, st.floats(0.2, 3.5), st.integers(2, 3))
def test_a_gang_that_loads_and_whose_replicas_end_one_after_the_other(
    some_traffic: Traffic, some: Sequence[int], load: float, replicas: int
) -> None:
    """What is read faster than epochs are was loaded, though it is as much as some of them; who has ended still counts."""
    epoch_ms = max(some_traffic.reads_ms) + some_traffic.pause_ms
    steady = [epoch_ms - some_traffic.pause_ms] * len(some_traffic.reads_ms)
    loaded = round(load * some_traffic.epoch_bytes)
    own = msgspec.structs.replace(
        some_traffic, reads_ms=steady, load_bytes=loaded, load_ms=round(load * epoch_ms / 5), halts={}
    )
    beats = own.counts(some)
    profiler, found = Profiler(), []
    for number, beat in enumerate(beats):
        for replica in range(replicas):
            over = number >= len(beats) - replicas + replica + 1  # the last of them ends with the last heartbeat
            state = ReplicaState.EXITED if over else ReplicaState.RUNNING
            report = ReplicaReport(job="a", incarnation=1, replica=replicas - 1 - replica, state=state)
            found += profiled([beat], profiler=profiler, replica=report)
    assert found, "no epoch was found"
    for event in found:
        assert abs(event.epoch_bytes - replicas * own.epoch_bytes) <= 0.03 * replicas * own.epoch_bytes
        assert abs(event.ended_ms - BEGIN_MS - own.load_ms - event.epoch * epoch_ms) <= 0.25 * epoch_ms
        assert event.load_ms is not None
        assert abs(event.load_ms - own.load_ms) <= 0.25 * epoch_ms


@given(traffic(most_bytes=10**8), jitters, st.integers(0, 1))
def test_a_replica_that_leaves_counts_for_no_later_epoch(
    some_traffic: Traffic, some: Sequence[int], epoch: int
) -> None:
    """It leaves in the middle of an epoch, and the others go on in their incarnation, as when a gang gives up a worker."""
    own = msgspec.structs.replace(some_traffic, halts={})
    beats = own.counts(some)
    leaves = next(number for number, (_, count) in enumerate(beats) if count >= (epoch + 0.5) * own.epoch_bytes)
    profiler, later = Profiler(), []
    for number, beat in enumerate(beats):
        for replica in (0, 1) if number <= leaves else (0,):
            state = ReplicaState.EXITED if replica and number == leaves else ReplicaState.RUNNING
            report = ReplicaReport(job="a", incarnation=1, replica=replica, state=state)
            later += profiled([beat], profiler=profiler, replica=report)
    assert later[1:], "at most one epoch was found"
    assert all(abs(event.epoch_bytes - own.epoch_bytes) <= 0.03 * own.epoch_bytes for event in later[1:])
    assert [event.read_bytes for event in later] == sorted(event.read_bytes for event in later)


@given(traffic(most_bytes=10**8), jitters, st.integers(61_000, 10**7))
def test_a_clock_that_is_set_back_makes_no_epoch_a_load(
    some_traffic: Traffic, some: Sequence[int], back_ms: int
) -> None:
    """Epochs keep their numbers, and what was read before the first that is recognised is not taken for a load."""
    steady = [max(some_traffic.reads_ms)] * len(some_traffic.reads_ms)
    own = msgspec.structs.replace(some_traffic, reads_ms=steady, halts={})
    beats = own.counts(some)
    set_back = [(at_ms - back_ms if count > 1.5 * own.epoch_bytes else at_ms, count) for at_ms, count in beats]
    found = profiled(set_back)
    ends_ms = [at_ms for at_ms, _ in own.knots()][5::4]
    assert found, "no epoch was found"
    for event in found:
        assert abs(event.ended_ms + back_ms - BEGIN_MS - ends_ms[event.epoch - 1]) <= 2 * BEAT_MS
        assert event.load_bytes is not None
        assert event.load_bytes <= 0.03 * own.epoch_bytes


STEADY = Traffic(epoch_bytes=2_000_000, reads_ms=[4_000] * 5, pause_ms=2_000, load_bytes=0, load_ms=0, halts={})


@given(traffic(), jitters, st.integers(1, 4_000_000))
@example(STEADY, [0], 551_323)
def test_a_resumed_job_is_known_by_its_first_epoch(some_traffic: Traffic, some: Sequence[int], load: int) -> None:
    """It has loaded as much as before, with a halt, and reads its data set once."""
    loading = [(0, 0), (500, load // 2), (1_000, load // 2), (1_500, load // 2), (2_000, load)]
    beats = [(2_500 + at_ms, load + count) for at_ms, count in some_traffic.counts(some)]
    profiler = Profiler()
    before = profiled([*loading, *beats], profiler=profiler)
    if not before or (first := before[0]).load_bytes is None:
        return
    assert abs(first.read_bytes - first.load_bytes - first.epoch * first.epoch_bytes) <= 0.03 * first.epoch_bytes
    if first.epoch != 3:
        return
    resumed = ReplicaReport(job="a", incarnation=2, state=ReplicaState.RUNNING)
    later = [(10**7 + at_ms, count) for at_ms, count in [*loading, *beats]]
    after = profiled(later, profiler=profiler, replica=resumed)
    assert after[0].epoch == 1
    assert all(abs(one.epoch_bytes - first.epoch_bytes) <= 0.03 * first.epoch_bytes for one in after)


@given(traffic(most_bytes=10**8), jitters, st.sampled_from(WRAPS[:2]), st.floats(0.1, 0.9))
def test_a_counter_that_wraps_is_followed(some_traffic: Traffic, some: Sequence[int], wrap: int, share: float) -> None:
    """A counter of 32 or 63 bits begins again at 0."""
    beats = some_traffic.counts(some)
    first = wrap - round(share * beats[-1][1])
    wrapped = [(at_ms, (first + count) % wrap) for at_ms, count in beats]
    assert any(after < before for (_, before), (_, after) in pairwise(wrapped))
    assert _measures(profiled(wrapped)) == _measures(profiled(beats))


@given(traffic(most_bytes=8 * 10**8), jitters, st.integers(0, 3))
@example(msgspec.structs.replace(STEADY, epoch_bytes=1_120_426_251), [0], 2)
def test_a_counter_that_begins_again_between_two_epochs_is_followed(
    some_traffic: Traffic, some: Sequence[int], epoch: int
) -> None:
    """The count was lost while the job paused. One that was close to 2³² may have wrapped, unless it read much slower."""
    beats = some_traffic.counts(some)
    level = some_traffic.epoch_bytes * (epoch + 1)
    lost = [(at_ms, count - level if count > level else count) for at_ms, count in beats]
    assert _measures(profiled(lost)) == _measures(profiled(beats))


def _measures(found: Sequence[EpochMeasured]) -> list[tuple[int, int]]:
    return [(one.epoch_ms, one.epoch_bytes) for one in found]


@given(
    st.lists(
        st.tuples(st.integers(-5_000, 5_000), st.none() | st.integers(0, LARGEST) | st.integers(0, 10**7)), max_size=200
    ),
    st.lists(st.integers(0, 3), min_size=1),
    st.sampled_from(list(ReplicaState)),
)
def test_no_counter_breaks_it_and_what_it_keeps_is_bounded(
    steps: list[tuple[int, int | None]], incarnations: list[int], last: ReplicaState
) -> None:
    """Counters that jump, go back or are absent, clocks that go back, incarnations in any order."""
    profiler, at_ms = Profiler(), 10_000_000
    for number, (more_ms, count) in enumerate(steps):
        at_ms = max(0, at_ms + more_ms)
        replica = ReplicaReport(
            job="a",
            incarnation=incarnations[number % len(incarnations)],
            state=last if number % 50 == 49 else ReplicaState.RUNNING,
        )
        for event in profiled([(at_ms, count)], profiler=profiler, replica=replica):
            assert event.epoch >= 1
            assert event.epoch_ms > 0
    kept = profiler.state.jobs.values()
    assert all(len(trace.pauses) <= PAUSES_KEPT for job in kept for trace in job.traces.values())
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(profiler.state), type=ProfilerState)
    assert again == profiler.state


@given(traffic(), jitters, st.data())
def test_a_decoded_state_goes_on_as_the_one_that_was_kept(
    some_traffic: Traffic, some: Sequence[int], data: st.DataObject
) -> None:
    """A snapshot and the rest of the log give what the whole log gives."""
    beats = some_traffic.counts(some)
    cut = data.draw(st.integers(0, len(beats)))
    kept = Profiler()
    first = profiled(beats[:cut], profiler=kept)
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(kept.state), type=ProfilerState)
    assert first + profiled(beats[cut:], profiler=Profiler(state)) == profiled(beats)


@given(traffic(), jitters, st.integers(0, 10**6), st.floats(0, 1e6), st.integers(0, 10**9))
def test_what_a_job_says_of_itself_changes_nothing(
    some_traffic: Traffic, some: Sequence[int], step: int, epoch: float, total: int
) -> None:
    """Steps, epochs and totals that are not so do not count."""
    beats = some_traffic.counts(some)
    lying = ReplicaReport(
        job="a", incarnation=1, state=ReplicaState.RUNNING, step=step, epoch=epoch, epochs=epoch, total=total
    )
    assert profiled(beats, replica=lying) == profiled(beats)


@given(traffic(), jitters)
def test_heartbeats_about_something_else_change_no_epoch(some_traffic: Traffic, some: Sequence[int]) -> None:
    """A heartbeat that repeats the counts of the one before is no pause."""
    beats = some_traffic.counts(some)
    repeated = [one for at_ms, count in beats for one in ((at_ms, count), (at_ms + 40, count))]
    bare, more = profiled(beats), profiled(repeated)
    assert [(one.epoch, one.epoch_bytes) for one in bare] == [(one.epoch, one.epoch_bytes) for one in more]
