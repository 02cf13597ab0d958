"""Partition assignment on a real broker: all members get a share, and a partition moves only after its member stopped."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator

import pytest
from aiokafka.errors import KafkaError
from tests.harness.waiting import until

from steepest.errors import LogUnavailableError
from steepest.log.base import TopicPartition
from steepest.log.kafka import consumer_group
from steepest.log.kafka.consumer_group import KafkaAssignment
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.log.kafka.kafka_topics import KafkaTopics

ALL = [TopicPartition("loss", number) for number in range(4)]


@pytest.fixture
async def shares(kafka: KafkaSettings) -> AsyncIterator[list[KafkaAssignment]]:
    """Assignments of one group that have not joined yet."""
    await KafkaTopics(kafka, {"loss": 4}).apply()
    members = [KafkaAssignment(kafka, ALL, "categorizer") for _ in range(3)]
    yield members
    for member in members:
        await member.close()


async def work(share: KafkaAssignment, working: dict[TopicPartition, KafkaAssignment]) -> None:
    """Work on every assigned partition until cancelled, and stop when asked."""
    while True:
        for at in await share.take():
            assert at not in working, f"two work on {at}"
            working[at] = share
        await share.revoked.wait()
        for at in [at for at, who in working.items() if who is share]:
            del working[at]
        share.give_back()


async def test_members_share_all_partitions_and_never_one(shares: list[KafkaAssignment]) -> None:
    """After members join or leave, each partition soon has exactly one member, and never has two."""
    working: dict[TopicPartition, KafkaAssignment] = {}
    tasks = []
    for members in (1, 2, 3):
        tasks.append(asyncio.create_task(work(shares[members - 1], working)))
        await until(
            lambda members=members: sorted(working) == ALL and len(set(map(id, working.values()))) == members,  # type: ignore[misc]
            f"{members} members",
        )
    tasks[0].cancel()
    for at in [at for at, who in working.items() if who is shares[0]]:
        del working[at]
    await shares[0].close()
    await until(lambda: sorted(working) == ALL, "the others to take over")
    assert shares[0] not in working.values()
    for task in tasks[1:]:
        assert not task.done(), task.exception()
        task.cancel()


async def test_a_share_is_handed_over_only_when_given_back(shares: list[KafkaAssignment]) -> None:
    """A new member gets nothing while the previous one still works, and its share once that one has released it."""
    first, second, _ = shares
    await first.take()
    taking = asyncio.create_task(second.take())
    await first.revoked.wait()
    assert not taking.done()

    first.give_back()

    assert len(await taking) == len(await first.take()) == 2


SLEEPER = """
import asyncio, sys
from steepest.log.base import TopicPartition
from steepest.log.kafka.consumer_group import KafkaAssignment
from steepest.log.kafka.kafka_settings import KafkaSettings

async def main():
    all_of_it = [TopicPartition("loss", number) for number in range(4)]
    share = KafkaAssignment(KafkaSettings(bootstrap=sys.argv[1], prefix=sys.argv[2]), all_of_it, "categorizer")
    (at, *_) = await share.take()
    print(await share.is_held(at), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(await share.is_held(at), flush=True)
    share.give_back()
    await share.close()

asyncio.run(main())
"""


async def test_a_member_that_slept_learns_that_its_share_is_another_s(
    shares: list[KafkaAssignment], kafka: KafkaSettings
) -> None:
    """The coordinator answers it, so that it does not act before its own clock and tasks have noticed anything."""
    sleeper = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SLEEPER, kafka.bootstrap, kafka.prefix,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert sleeper.stdin is not None
    assert sleeper.stdout is not None
    try:
        held = await sleeper.stdout.readline()
        sleeper.send_signal(signal.SIGSTOP)
        successor = shares[0]
        taken = await successor.take()
        assert await successor.is_held(ALL[0])
        sleeper.send_signal(signal.SIGCONT)
        sleeper.stdin.write(b"\n")
        lost = await sleeper.stdout.readline()
    finally:
        sleeper.kill()
        await sleeper.wait()

    assert (held, lost) == (b"True\n", b"False\n")
    assert taken == ALL


async def test_a_share_that_is_to_be_given_back_is_not_held(shares: list[KafkaAssignment]) -> None:
    """No act may begin that the next member would not know of."""
    first, second, _ = shares
    await first.take()
    held = await first.is_held(ALL[0])
    taking = asyncio.create_task(second.take())
    await first.revoked.wait()

    assert held
    assert not await first.is_held(ALL[0])
    first.give_back()
    await taking


async def test_partitions_that_a_member_does_not_know_are_left_alone(kafka: KafkaSettings) -> None:
    """A pool that was added while it runs is worked on once it is restarted."""
    await KafkaTopics(kafka, {"loss": 4}).apply()
    older = KafkaAssignment(kafka, ALL[:3], "categorizer")

    assert await older.take() == ALL[:3]
    await older.close()


async def test_a_member_whose_client_has_failed_joins_again(shares: list[KafkaAssignment]) -> None:
    """The client stops its heartbeats after an error that it does not expect, and would never take part again."""
    share = shares[0]
    taken = await share.take()
    assert share._client is not None

    async def fail() -> bool:
        raise KafkaError("an error that no one expects")

    share._client._coordinator._do_heartbeat = fail
    async with asyncio.timeout(60):
        await share.revoked.wait()
    share.give_back()
    with pytest.raises(LogUnavailableError, match="an error that no one expects"):
        await share.take()

    assert await share.take() == taken == ALL
    assert await share.is_held(ALL[0])


async def test_an_assignment_that_does_not_come_is_asked_for_again(
    shares: list[KafkaAssignment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that waits for ever is left, and another one gets the share that is free by then."""
    first, second, _ = shares
    await first.take()
    monkeypatch.setattr(consumer_group, "JOIN_S", 1.0)
    with pytest.raises(LogUnavailableError, match="cannot join"):
        await second.take()  # the first one still works on what it has, and does not give it back
    monkeypatch.undo()
    first.give_back()

    assert await second.take()
