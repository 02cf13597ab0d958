"""Ids by cause, the chain of predecessors, and nothing appended twice."""

from __future__ import annotations

import pytest
from tests.harness.memory_log import MemoryLog

from steepest.events import cluster as c
from steepest.events.received import ID, LOGIC, PREVIOUS, TRUNCATIONS, Received
from steepest.log.base import NewRecord, TopicPartition
from steepest.runtime.batch import count_decisions
from steepest.runtime.decision_stream import DecisionStream
from steepest.runtime.decode import minted_record, new_record
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.recovery.decision_scan import scan

SOURCE = TopicPartition("loss", 1)
FIRST, SECOND = TopicPartition("cluster", 0), TopicPartition("cluster", 1)
TICK = c.Tick(counted_ms=1)


def stream(last_ids: dict[str, str] | None = None, *, logic: int = 3, truncations: int = 0) -> DecisionStream:
    """A decider's stream over one partition of losses."""
    return DecisionStream("judge", logic, SOURCE, last_ids, truncations)


def cause(offset: int) -> Received[c.ClusterEvent]:
    """A record of that partition."""
    return Received(event=TICK, topic="loss", partition=1, offset=offset, at_ms=10 * offset)


def made(of: DecisionStream, offset: int, *to: TopicPartition) -> list[NewRecord]:
    """What is to be appended when a record makes one decision for each of these partitions."""
    return records(of, cause(offset), *to)


def records(of: DecisionStream, why: Received[c.ClusterEvent], *to: TopicPartition) -> list[NewRecord]:
    """Likewise, for any record."""
    return [minted_record(one) for one in of.mint("e1", why, [(at, "pool", TICK) for at in to])]


def chain(appended: list[NewRecord]) -> list[tuple[str, str]]:
    """Each record's predecessor and id, without what all ids have in common."""
    common = "judge/e1/loss/1/"
    return [
        (record.headers.get(PREVIOUS, "").removeprefix(common), record.headers[ID].removeprefix(common))
        for record in appended
    ]


def test_an_id_is_its_cause_and_names_its_predecessor() -> None:
    """The id is made of decider, epoch and the cause's place; each names the one before it on its output partition."""
    decisions = stream()
    appended = [*made(decisions, 4, FIRST, SECOND, FIRST), *made(decisions, 7, SECOND)]

    assert appended[0].headers[ID] == "judge/e1/loss/1/4/0"
    assert appended[0].headers[LOGIC] == "3"
    assert chain(appended) == [("", "4/0"), ("", "4/1"), ("4/0", "4/2"), ("4/1", "7/0")]
    assert [record.to for record in appended] == [FIRST, SECOND, FIRST, SECOND]


def test_a_decision_has_the_time_of_its_cause() -> None:
    """Deciders read no clock: what they decide is stamped with the time of what made them decide."""
    (record,) = made(stream(), 7, FIRST)

    assert record.at_ms == 70


async def test_what_stands_in_the_log_is_not_appended_again() -> None:
    """After a scan, decisions up to the newest found are left out, and the next one goes on with their chain."""
    log = MemoryLog({"cluster": 2})
    before = stream()
    await log.append(made(before, 4, FIRST, FIRST))
    after = stream()
    after.fence(await scan(log, {FIRST: 0, SECOND: 0}))

    assert made(after, 4, FIRST, FIRST) == []
    assert chain(made(after, 9, FIRST)) == [("4/1", "9/0")]


async def test_a_batch_that_was_kept_in_part_is_completed() -> None:
    """Of a batch whose first records are in the log, the rest is appended."""
    log = MemoryLog({"cluster": 2})
    await log.append(made(stream(), 4, FIRST, SECOND, FIRST)[:2])
    again = stream()
    again.fence(await scan(log, {FIRST: 0, SECOND: 0}))

    assert chain(made(again, 4, FIRST, SECOND, FIRST)) == [("4/0", "4/2")]


async def test_a_new_version_goes_on_with_the_chain_of_the_old_one() -> None:
    """Where another version decided more than this one does, the next decision still follows the newest in the log."""
    log = MemoryLog({"cluster": 2})
    await log.append(made(stream(), 5, FIRST))
    new = stream()
    new.fence(await scan(log, {FIRST: 0}))

    assert made(new, 3, FIRST) == []
    assert chain(made(new, 8, FIRST)) == [("5/0", "8/0")]


@pytest.mark.parametrize(("position", "passed"), [(5, False), (6, True)])
async def test_a_snapshot_may_forget_what_has_been_passed(position: int, passed: bool) -> None:  # noqa: FBT001 - a case
    """Once the cause of the newest decision found lies behind, nothing has to be looked for any more."""
    log = MemoryLog({"cluster": 2})
    await log.append(made(stream(), 5, FIRST))
    new = stream()
    new.fence(await scan(log, {FIRST: 0}))

    assert new.passed(position, "e1") is passed
    assert new.last_ids == ({str(FIRST): "judge/e1/loss/1/5/0"} if passed else {})


async def test_a_late_copy_of_an_old_decision_precedes_nothing() -> None:
    """A scan from behind the newest decision of the snapshot on finds a copy of an older one, which changes nothing."""
    log = MemoryLog({"cluster": 2})
    before = stream()
    late = made(before, 4, FIRST)
    await log.append([*late, *made(before, 5, FIRST), *late])
    after = stream(before.last_ids)
    after.fence(await scan(log, {FIRST: 2}))

    assert after.passed(6, "e1")
    assert chain(made(after, 6, FIRST)) == [("5/0", "6/0")]


async def test_what_a_deleted_partition_made_precedes_nothing() -> None:
    """The partition was deleted and created again: the chain of its new decisions does not go on from the old ones."""
    log = MemoryLog({"cluster": 2})
    await log.append(made(stream(), 5, FIRST))
    new = stream()
    new.fence(await scan(log, {FIRST: 0}))
    await log.append(first := [minted_record(one) for one in new.mint("e2", cause(2), [(FIRST, "pool", TICK)])])

    assert new.passed(9, "e2")
    assert PREVIOUS not in first[0].headers
    assert new.last_ids == {str(FIRST): "judge/e2/loss/1/2/0"}


async def test_what_another_logic_decided_is_stated_again_behind_it() -> None:
    """From behind the newest that was found, of all output partitions; what this logic decided alone is not."""
    log = MemoryLog({"cluster": 2})
    await log.append([*made(stream(), 4, FIRST), *made(stream(logic=2), 5, SECOND), *made(stream(), 6, FIRST)])
    found = await scan(log, {FIRST: 0, SECOND: 0})
    (new := stream()).fence(found)
    (alone := stream()).fence({key: one for key, one in found.items() if key[1] == FIRST})

    assert new.restate_at("e1", is_truncated=False) == 7
    assert alone.restate_at("e1", is_truncated=False) is None
    assert stream().restate_at("e1", is_truncated=False) is None


async def test_what_was_decided_about_a_deleted_partition_is_not_stated_again() -> None:
    """Neither another logic nor a loss of its records concerns the partition in its place, whose ids are others."""
    log = MemoryLog({"cluster": 2})
    await log.append(made(stream(logic=2), 9, FIRST))
    (new := stream()).fence(await scan(log, {FIRST: 0}))
    await log.append([minted_record(one) for one in new.mint("e2", cause(2), [(FIRST, "pool", TICK)])])
    (after := stream()).fence(await scan(log, {FIRST: 0}))

    assert new.newest_cause("e2") is None
    assert new.restate_at("e2", is_truncated=False) is None
    assert after.newest_cause("e2") == (2, 20)
    assert after.restate_at("e2", is_truncated=False) is None
    assert after.restate_at("e2", is_truncated=True) == 3


async def test_what_only_a_snapshot_knows_of_is_left_out_and_stated_again_behind_it() -> None:
    """Where another logic kept the snapshot, all is read again, and what was decided then may have been removed since."""
    before = stream(logic=2)
    made(before, 5, FIRST)
    (new := stream(before.last_ids)).fence({})
    new.fence_ahead(0, [FIRST, SECOND])

    assert new.newest_cause("e1") == (5, None)
    assert new.restate_at("e1", is_truncated=False) == 6
    assert made(new, 4, FIRST) == []
    assert chain(made(new, 4, SECOND)) == [("", "4/0")]
    assert chain(made(new, 6, FIRST)) == [("5/0", "6/0")]


async def test_what_a_snapshot_has_passed_is_not_stated_again() -> None:
    """What was decided before its position is not decided again."""
    before = stream()
    made(before, 5, FIRST)
    (after := stream(before.last_ids)).fence({})
    after.fence_ahead(6, [FIRST, SECOND])

    assert not after.is_found
    assert after.restate_at("e1", is_truncated=False) is None


async def test_each_start_goes_on_with_a_restatement() -> None:
    """Every start that finds decisions from before and after a loss of records states all again, until a snapshot has it."""
    log = MemoryLog({"cluster": 2})
    await log.append(made(stream(), 5, FIRST, SECOND))
    (first := stream()).fence(await scan(log, {FIRST: 0, SECOND: 0}))
    assert first.restate_at("e1", is_truncated=True) == 6
    await log.append(after := made(first, 7, FIRST))
    (second := stream()).fence(await scan(log, {FIRST: 0, SECOND: 0}))
    assert second.restate_at("e1", is_truncated=False) == 8
    await log.append(later := made(second, 9, SECOND))
    (third := stream()).fence(await scan(log, {FIRST: 0, SECOND: 0}))
    (from_snapshot := stream(truncations=second.truncations)).fence(await scan(log, {FIRST: 1, SECOND: 1}))

    assert third.restate_at("e1", is_truncated=False) == 10
    assert from_snapshot.restate_at("e1", is_truncated=False) is None
    assert [one.headers.get(TRUNCATIONS) for one in (*after, *later, *made(from_snapshot, 10, FIRST))] == ["1"] * 3
    assert from_snapshot.restate_at("e1", is_truncated=True) == 10


async def test_a_count_that_is_none_counts_as_none() -> None:
    """A header comes from outside: one that spells no number is that of a partition that has lost nothing."""
    log = MemoryLog({"cluster": 2})
    (record,) = made(stream(), 5, FIRST)
    headers = {**record.headers, TRUNCATIONS: "many"}
    await log.append([NewRecord(to=FIRST, key="", value=record.value, at_ms=50, headers=headers)])
    (new := stream()).fence(await scan(log, {FIRST: 0}))

    assert new.restate_at("e1", is_truncated=False) is None
    assert TRUNCATIONS not in made(new, 6, FIRST)[0].headers


async def test_others_are_no_fence() -> None:
    """Decisions of another decider, or about another partition, keep nothing back."""
    log = MemoryLog({"cluster": 2})
    other = DecisionStream("other", 1, SOURCE)
    elsewhere = DecisionStream("judge", 1, TopicPartition("loss", 0))
    away: Received[c.ClusterEvent] = Received(event=TICK, topic="loss", partition=0, offset=9, at_ms=0)
    await log.append([*made(other, 9, FIRST), *records(elsewhere, away, FIRST)])
    ours = stream()
    ours.fence(await scan(log, {FIRST: 0}))

    assert ours.passed(0, "e1")
    assert chain(made(ours, 2, FIRST)) == [("", "2/0")]


async def test_a_scan_reads_to_the_end_and_no_further() -> None:
    """It starts at the given position, ends where the partitions ended when it began, and skips records of no decision."""
    log = MemoryLog({"cluster": 2})
    await log.append([new_record(FIRST, "pool", TICK, 0), *made(stream(), 4, FIRST, SECOND)])

    assert {str(one.newest) for one in (await scan(log, {FIRST: 0, SECOND: 0})).values()} == {
        "judge/e1/loss/1/4/0",
        "judge/e1/loss/1/4/1",
    }
    assert await scan(log, {FIRST: 2, SECOND: 1}) == {}


async def test_each_decision_is_counted_once() -> None:
    """Those made, and those left out because they are in the log, however often the metrics are asked for them."""
    metrics = Metrics()
    log = MemoryLog({"cluster": 2})
    await log.append(made(stream(), 3, FIRST))
    decisions = stream()
    decisions.fence(await scan(log, {FIRST: 0}))
    made(decisions, 3, FIRST)
    made(decisions, 4, FIRST, SECOND)

    for _ in range(2):
        count_decisions(metrics, decisions)

    value = metrics.registry.get_sample_value
    assert value("steepest_decisions_total", {"decider": "judge", "event": "Tick"}) == 2
    assert value("steepest_decisions_repeated_total", {"decider": "judge"}) == 1
