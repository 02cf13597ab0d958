"""The loop over a pool's log: batches, back-pressure, stopping, effectors, and logs that are not for this reader."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
from tests.harness.memory_log import MemoryLog, MemorySnapshots
from tests.harness.system.fake_cluster import Gate, When
from tests.harness.system.rig import AT, Rig, RigProcess, read_all
from tests.harness.waiting import until

from steepest.errors import LogEpochError, LogUnavailableError, LogVersionError
from steepest.events import cluster as c
from steepest.events.received import ID, DecisionId, Received
from steepest.events.registry import READS
from steepest.log.base import NewRecord
from steepest.runtime.effector import Effector
from steepest.runtime.service import Service
from steepest.view.cluster_view import ClusterView


async def read_on(process: RigProcess, rig: Rig) -> None:
    """Wait until a process has read all that there is, and all that follows from it."""
    end = -1
    while end < await rig.log.end(AT):
        end = await rig.log.end(AT)
        await until(lambda: process.runtime.health.is_ready() and process.view.position >= end)  # noqa: B023


class Meeting:
    """A hook that acts at the first append that holds an event of a type."""

    def __init__(self, wanted: type, when: When, action: Callable[[], object]) -> None:
        self.appends: list[list[str]] = []
        self.polls = 0
        self._wanted, self._when, self._action = f'"type":"{wanted.__name__}"'.encode(), when, action
        self._met = False

    async def __call__(self, call: str, when: When, records: Sequence[NewRecord]) -> None:
        """Be met."""
        self.polls += (call, when) == ("poll", When.BEFORE)
        if call != "append":
            return
        if when is When.AFTER:
            self.appends.append([record.headers.get(ID, "") for record in records])
        if when is self._when and not self._met and any(self._wanted in record.value for record in records):
            self._met = True
            waits = self._action()
            if hasattr(waits, "__await__"):
                await waits


class Witness(Effector):
    """Remembers its calls, in order."""

    name = "witness"

    def __init__(self) -> None:
        self.calls: list[str | int] = []

    def caught_up(self, view: ClusterView) -> None:
        """The history is over, up to here."""
        self.calls.append(f"caught up to {view.position}")

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:  # noqa: ARG002
        """A record."""
        self.calls.append(received.offset)


# --- batches ----------------------------------------------------------------------------------------------------------


async def test_a_batch_appends_once_in_the_order_of_its_causes(rig: Rig) -> None:
    """What follows from all records of a batch is appended in one call, first cause first."""
    process = rig.start("placer")
    process.log.hook = meeting = Meeting(c.JobAdmitted, When.AFTER, lambda: None)
    await read_on(process, rig)
    meeting.appends.clear()
    await rig.append(*[c.JobSubmitted(job=job, request=job, spec=c.JobSpec(command=("x",))) for job in "abc"])
    await read_on(process, rig)
    decisions = [DecisionId.parse(text) for text in meeting.appends[0]]

    assert len(meeting.appends) == 1
    assert [decision.offset for decision in decisions if decision] == [1, 2, 3]


async def test_nothing_is_read_before_the_outputs_are_kept(rig: Rig) -> None:
    """While the log takes nothing the loop reads nothing, so no queue grows."""
    gate = Gate()
    process = rig.start("placer")
    process.log.hook = meeting = Meeting(c.JobAdmitted, When.BEFORE, gate)
    await rig.submit("a")
    await gate.reached.wait()
    polls = meeting.polls
    for job in ("b", "c"):
        await rig.submit(job)
        await rig.clock.sleep(60)

    assert meeting.polls == polls
    gate.open()
    await read_on(process, rig)
    assert [event.job for event in await rig.of_type(c.JobAdmitted)] == ["a", "b", "c"]


async def test_a_loop_that_hangs_is_stuck(rig: Rig) -> None:
    """An append that never returns is found out, although nothing else was left to read."""
    process = rig.start("placer")
    await read_on(process, rig)
    process.log.hook = Meeting(c.JobAdmitted, When.BEFORE, Gate())
    assert process.runtime.health.is_alive()
    await rig.submit("a")
    await until(lambda: not process.runtime.health.is_alive(), within_s=3_600)

    assert process.runtime.health.stuck() == ["pool:default"]


@pytest.mark.usefixtures("few_records")
async def test_a_stop_in_the_middle_of_a_batch_loses_nothing(rig: Rig) -> None:
    """Asked to stop while it appends, the loop completes the batch, and the next process repeats nothing."""
    gate, snapshots = Gate(), MemorySnapshots()
    process = rig.start("placer", snapshots=snapshots)
    process.log.hook = Meeting(c.JobAdmitted, When.BEFORE, gate)
    await rig.submit("a")
    await gate.reached.wait()
    process._stop.set()
    await rig.clock.sleep(10)
    gate.open()
    await process.stop()
    end = await rig.log.end(AT)
    again = rig.start("placer", snapshots=snapshots)
    await read_on(again, rig)

    assert [event.job for event in await rig.of_type(c.JobAdmitted)] == ["a"]
    assert await rig.log.end(AT) == end
    assert again.runtime.metrics.repeated.labels("placer")._value.get() == 0


async def test_a_snapshot_that_cannot_be_kept_stops_nobody(rig: Rig) -> None:
    """A snapshot only saves time: on a full disk the loop goes on without, and stops as it should."""

    class FullDisk(MemorySnapshots):
        async def save(self, key: str, data: bytes) -> None:
            raise LogUnavailableError(f"no room for the {len(data)} bytes of {key}")

    process = rig.start("placer", snapshots=FullDisk())
    await rig.submit("a")
    await read_on(process, rig)
    await process.stop()

    assert [event.job for event in await rig.of_type(c.JobAdmitted)] == ["a"]


# --- effectors --------------------------------------------------------------------------------------------------------


async def test_effectors_never_see_history_as_live(rig: Rig) -> None:
    """An effector gets one call at the end of the history, and then one for every later record."""
    for job in ("a", "b"):
        await rig.submit(job)
    witness = Witness()
    process = rig.start(Service(name="witness", effectors=lambda _: (witness,)))
    await read_on(process, rig)
    await rig.submit("c")
    await read_on(process, rig)

    assert witness.calls == ["caught up to 2", 2]


async def test_history_is_over_at_the_start_of_the_process(rig: Rig) -> None:
    """What comes while the history is being read is live, also where it is read in one batch with it."""
    await rig.submit("a")
    witness = Witness()
    process = rig.start(Service(name="witness", effectors=lambda _: (witness,)))

    polls = itertools.count(1)

    async def meanwhile(call: str, when: When, _records: Sequence[NewRecord]) -> None:
        # The first poll is the scan's, which comes before the history's end is looked up.
        if (call, when) == ("poll", When.BEFORE) and next(polls) == 2:
            await rig.submit("b")

    process.log.hook = meanwhile
    await read_on(process, rig)

    assert witness.calls == ["caught up to 1", 1]


@pytest.mark.parametrize("when", list(When))
async def test_after_a_failure_effectors_catch_up_again(rig: Rig, when: When) -> None:
    """A restarted loop reads the history again: effectors get one call at its end, and no record twice."""
    witness = Witness()

    def fail() -> None:
        raise LogUnavailableError("a test's log fails")

    process = rig.start("placer", Service(name="witness", effectors=lambda _: (witness,)))
    await read_on(process, rig)
    process.log.hook = Meeting(c.JobAdmitted, when, fail)
    await rig.submit("a")
    await until(lambda: len(witness.calls) > 2)
    await read_on(process, rig)

    caught_up = "caught up to 2" if when is When.BEFORE else "caught up to 3"
    assert witness.calls == ["caught up to 1", 1, caught_up, *([2] if when is When.BEFORE else [])]
    assert [event.job for event in await rig.of_type(c.JobAdmitted)] == ["a"]


# --- logs that are not for this reader ----------------------------------------------------------------------------------


@pytest.mark.parametrize("unknown", [{"reads": READS + 1}, {"flags": (4_711,)}])
async def test_a_reader_stops_before_what_it_does_not_know(rig: Rig, unknown: dict[str, int]) -> None:
    """At a raised version or an unknown flag the process ends and says so; what came before is decided, nothing beyond."""
    process = rig.start("placer")
    await read_on(process, rig)
    await rig.append(
        c.JobSubmitted(job="before", request="1", spec=c.JobSpec(command=("x",))),
        c.PoolConfigured(**unknown),  # type: ignore[arg-type]
        c.JobSubmitted(job="beyond", request="2", spec=c.JobSpec(command=("x",))),
    )
    with pytest.raises(LogVersionError) as caught:
        await process.task

    assert "upgrade" in caught.value.hint
    assert process.runtime.health.refusal == str(caught.value)
    assert not process.runtime.health.is_ready()
    assert process.view.position == 2
    assert [event.job for event in await rig.of_type(c.JobAdmitted)] == ["before"]


async def test_an_upgraded_reader_goes_on_from_there(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that knows the version takes the record up where the older one stopped."""
    snapshots = MemorySnapshots()
    await rig.submit("before")
    await rig.append(c.PoolConfigured(reads=READS + 1))
    await rig.submit("beyond")
    with pytest.raises(LogVersionError):
        await rig.start("placer", snapshots=snapshots).task
    monkeypatch.setattr("steepest.view.cluster_view.READS", READS + 1)
    upgraded = rig.start("placer", snapshots=snapshots)
    await read_on(upgraded, rig)

    assert [event.job for event in await rig.of_type(c.JobAdmitted)] == ["before", "beyond"]


async def test_a_log_that_was_made_anew_is_refused(rig: Rig) -> None:
    """A position kept of another log means nothing in this one, also where this one is the longer."""
    snapshots = MemorySnapshots()
    process = rig.start("placer", snapshots=snapshots)
    await read_on(process, rig)
    await rig.submit("a")
    await read_on(process, rig)
    await process.stop()
    rig.log = MemoryLog(rig.layout.partitions())
    other = rig.start("placer")
    await read_on(other, rig)
    for job in "abcdefghij":
        await rig.submit(job)
    await read_on(other, rig)
    refused = rig.start("placer", snapshots=snapshots)
    with pytest.raises(LogEpochError):
        await refused.task

    assert refused.runtime.health.refusal


async def test_the_log_gets_its_identity_once(rig: Rig) -> None:
    """Each partition begins with a random epoch, which later processes leave as it is."""
    first = rig.start("placer")
    await read_on(first, rig)
    second = rig.start("rebalancer")
    await read_on(second, rig)
    opened = [
        [record.value for record in await read_all(rig.log, at)][:2]
        for topic in rig.layout.partitions()
        for at in rig.layout.of_topic(topic)
    ]

    assert [len(records) for records in opened] == [1] * len(opened)
    assert len({value for (value,) in opened}) == len(opened)
