"""Topics on Kafka as a log needs them: what they should be, what differs, and making it so.

It owns partition counts, retention, compaction and limits of every topic, and what must never be changed. It must never
know what a record's value means.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError, for_code

from steepest.errors import InputError, LogUnavailableError
from steepest.log.base import TopicPartition
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_reader import CLIENT_ERRORS
from steepest.log.kafka.kafka_settings import KafkaSettings

SNAPSHOTS = "snapshots"
"""The compacted topic; it holds snapshots and no events."""

DAY_MS = 86_400_000
FOR_EVER = "-1"
MAX_MESSAGE_BYTES = 9 << 20
"""A record of the largest size, with its key, headers and the batch around it."""

COMMON: Mapping[str, str] = {
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
    # A record's time is when the thing was observed, which may be any time; a broker refuses what it takes for wrong.
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "retention.bytes": FOR_EVER,
}

BY_TOPIC: Mapping[str, Mapping[str, str]] = {
    "cluster": {"cleanup.policy": "delete", "retention.ms": FOR_EVER},
    "loss": {"cleanup.policy": "delete", "retention.ms": str(30 * DAY_MS)},
    "heartbeats": {"cleanup.policy": "delete", "retention.ms": str(7 * DAY_MS)},
    "dead-letters": {"cleanup.policy": "delete", "retention.ms": str(90 * DAY_MS)},
    SNAPSHOTS: {
        "cleanup.policy": "compact",
        "retention.ms": FOR_EVER,
        "segment.bytes": str(32 << 20),
        "min.cleanable.dirty.ratio": "0.2",
        "delete.retention.ms": str(DAY_MS),
    },
}
"""A pool's log is the truth about it and stays; the others outlive the oldest snapshot that is kept of them by far."""

MAX_REPLICATION = 3

SETTLE_S = 15.0
"""A change is seen everywhere within a second or so."""

_DYNAMIC_TOPIC_CONFIG = 1


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it should be.

    Attributes:
        what: ``create``, ``partitions``, or a configuration's name.
        now: As it is; empty where the topic is not there.
        refused: Why it must stay as it is; empty where it can be changed.
    """

    topic: str
    what: str
    now: str = ""
    wanted: str
    refused: str = ""

    def __str__(self) -> str:
        if self.what == "create":
            return f"+ {self.topic}: {self.wanted}"
        why = f"  refused: {self.refused}" if self.refused else ""
        return f"~ {self.topic}: {self.what} {self.now or 'unset'} -> {self.wanted}{why}"


class Existing(msgspec.Struct, frozen=True):
    """A topic as it stands in Kafka; ``set_here`` are the configurations that somebody gave it."""

    partitions: int
    configs: Mapping[str, str]
    set_here: Mapping[str, str]


class KafkaTopics:
    """The topics of an installation."""

    def __init__(self, settings: KafkaSettings, partitions: Mapping[str, int], replication: int | None = None) -> None:
        """Topics with these numbers of partitions, and one for snapshots.

        Args:
            settings: How to reach the cluster.
            partitions: Topic to number of partitions.
            replication: Copies of each record; None for three, or as many as there are brokers.
        """
        self._settings = settings
        self._wanted = {**partitions, SNAPSHOTS: 1}
        self._replication = replication

    async def differences(self) -> list[Change]:
        """What is not as it should be, changing nothing.

        Raises:
            LogUnavailableError: The cluster does not answer.
        """
        async with _admin(self._settings) as admin:
            return [change for name in self._wanted for change in await self._of_topic(admin, name)]

    async def apply(self) -> list[Change]:
        """Make it so, and give what was changed. What is refused is refused before anything is changed.

        Raises:
            InputError: A change would put keys into other partitions than the records that they have already.
            LogUnavailableError: The cluster does not answer, or does not take a change.
        """
        changes = await self.differences()
        if refused := [change for change in changes if change.refused]:
            raise InputError(
                "; ".join(f"{change.topic}: {change.what} {change.now} -> {change.wanted}: {change.refused}"
                          for change in refused),
                code="topic-in-use",
                hint="keep the number, or make an installation with another prefix and move over to it",
            )  # fmt: skip
        async with _admin(self._settings) as admin:
            for name in dict.fromkeys(change.topic for change in changes):
                await self._change(admin, name, [change for change in changes if change.topic == name])
        if changes:
            await self._settled()
        return changes

    async def trim(self, before: Mapping[TopicPartition, int]) -> None:
        """Remove the records of partitions below an offset each, for good.

        Raises:
            LogUnavailableError: The cluster does not answer, or does not let us; some may be removed.
        """
        async with _admin(self._settings) as admin:
            await admin.delete_records(
                {
                    KafkaPartition(self._settings.prefix + at.topic, at.partition): RecordsToDelete(
                        before_offset=offset
                    )
                    for at, offset in before.items()
                }
            )

    async def _settled(self) -> None:
        """Wait until the brokers, who hear of a change from the controller, show it."""
        deadline = time.monotonic() + SETTLE_S
        while left := await self.differences():
            if time.monotonic() >= deadline:
                raise LogUnavailableError(
                    f"Kafka took the changes, and does not show them after {SETTLE_S:g} s: {left[0]}",
                    hint="look at the brokers' logs, then apply again",
                )
            await asyncio.sleep(0.05)

    # --- what differs --------------------------------------------------------------------------------------------------

    async def _of_topic(self, admin: AIOKafkaAdminClient, name: str) -> list[Change]:
        found = await _existing(admin, self._settings.prefix + name)
        wanted = self._wanted[name]
        configs = await self._configs(admin, name)
        if found is None:
            words = f"{wanted} partition{'s' if wanted > 1 else ''}, " + ", ".join(
                f"{key}={value}" for key, value in configs.items()
            )
            return [Change(topic=name, what="create", wanted=words)]
        changes = []
        if found.partitions != wanted:
            why = await self._why_not(name, found.partitions)
            changes.append(
                Change(topic=name, what="partitions", now=str(found.partitions), wanted=str(wanted), refused=why)
            )
        changes += [
            Change(topic=name, what=key, now=found.configs.get(key, ""), wanted=value)
            for key, value in configs.items()
            if found.configs.get(key) != value
        ]
        return changes

    async def _why_not(self, name: str, partitions: int) -> str:
        """Why the number of partitions must not change; empty where it may."""
        if partitions > self._wanted[name]:
            return "Kafka never takes partitions away"
        log = KafkaLog(self._settings, {name: partitions})
        try:
            ends = [await log.end(TopicPartition(name, number)) for number in range(partitions)]
        finally:
            await log.close()
        # The first record of a partition is its identity, and has no key.
        keyed = sum(max(0, end - 1) for end in ends)
        return f"it holds {keyed} records, whose keys would be looked for in other partitions" if keyed else ""

    async def _configs(self, admin: AIOKafkaAdminClient, name: str) -> dict[str, str]:
        copies = await self._copies(admin)
        return {**COMMON, **BY_TOPIC.get(name, {}), "min.insync.replicas": str(max(1, copies - 1))}

    async def _copies(self, admin: AIOKafkaAdminClient) -> int:
        if self._replication is not None:
            return self._replication
        cluster = await admin.describe_cluster()
        return min(MAX_REPLICATION, len(cluster["brokers"]))

    # --- changing ------------------------------------------------------------------------------------------------------

    async def _change(self, admin: AIOKafkaAdminClient, name: str, changes: Sequence[Change]) -> None:
        topic = self._settings.prefix + name
        configs = await self._configs(admin, name)
        for change in changes:
            if change.what == "create":
                new = NewTopic(topic, self._wanted[name], await self._copies(admin), topic_configs=configs)
                _check(topic, (await admin.create_topics([new])).topic_errors, unless=TopicAlreadyExistsError)
                return
            if change.what == "partitions":
                answer = await admin.create_partitions({topic: NewPartitions(self._wanted[name])})
                _check(topic, answer.topic_errors)
        found = await _existing(admin, topic)
        # Kafka's call sets everything anew: what somebody else gave the topic has to be told again.
        together = {**(found.set_here if found else {}), **configs}
        answers = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, together)])
        _check(topic, [(topic, code, message) for answer in answers for code, message, *_ in answer.resources])


@asynccontextmanager
async def _admin(settings: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    client = settings.client()
    admin = AIOKafkaAdminClient(**client)
    try:
        await admin.start()
        yield admin
    except CLIENT_ERRORS as error:
        raise LogUnavailableError(
            f"Kafka at {settings.bootstrap}: {type(error).__name__}: {error}", hint="look whether the broker runs there"
        ) from error
    finally:
        await admin.close()


async def _existing(admin: AIOKafkaAdminClient, topic: str) -> Existing | None:
    (described,) = await admin.describe_topics([topic])
    if described["error_code"] == UnknownTopicOrPartitionError.errno:
        return None
    _check(topic, [(topic, described["error_code"])])
    (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    ((code, message, _, _, entries),) = answer.resources
    _check(topic, [(topic, code, message)])
    configs = {name: value for name, value, *_ in entries}
    set_here = {name: value for name, value, _, source, *_ in entries if source == _DYNAMIC_TOPIC_CONFIG}
    return Existing(len(described["partitions"]), configs, set_here)


def _check(topic: str, errors: Iterable[Sequence[Any]], unless: type[Exception] | None = None) -> None:
    for _, code, *message in errors:
        kind = for_code(code)
        if code and kind is not unless:
            why = f": {message[0]}" if message and message[0] else ""
            raise LogUnavailableError(f"Kafka does not take the topic {topic}: {kind.__name__}{why}")
