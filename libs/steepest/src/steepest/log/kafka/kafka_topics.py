"""The configuration of the topics that a log needs on Kafka: finds differences and applies them.

It owns partition counts, retention, compaction and limits of every topic, and which of them must never change. It must
never know what a record's value means.
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
from steepest.events.registry import BY_POOL
from steepest.log.base import DAY_MS, RETENTION_MS, TopicPartition
from steepest.log.kafka.clients import CLIENT_ERRORS, closed
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_settings import KafkaSettings

SNAPSHOTS = "snapshots"
"""The compacted topic; it contains snapshots and no events."""

UNLIMITED = "-1"
MAX_MESSAGE_BYTES = 9 << 20
"""Fits a record of the maximum size with its key, headers and batch."""

COMMON: Mapping[str, str] = {
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
    # A record's time is when the event was observed, which may be any time; a broker rejects times far from its own.
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "retention.bytes": UNLIMITED,
}

BY_TOPIC: Mapping[str, Mapping[str, str]] = {
    "cluster": {"cleanup.policy": "delete", "retention.ms": UNLIMITED},
    **{topic: {"cleanup.policy": "delete", "retention.ms": str(ms)} for topic, ms in RETENTION_MS.items()},
    SNAPSHOTS: {
        "cleanup.policy": "compact",
        "retention.ms": UNLIMITED,
        "segment.bytes": str(32 << 20),
        "min.cleanable.dirty.ratio": "0.2",
        "delete.retention.ms": str(DAY_MS),
    },
}

MAX_REPLICATION = 3

SETTLE_S = 15.0
"""A change is usually visible on all brokers within a second."""

_DYNAMIC_TOPIC_CONFIG = 1


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between the wanted and the actual configuration.

    Attributes:
        what: ``create``, ``partitions``, or a configuration's name.
        now: The actual value; empty if the topic does not exist.
        refused: Why it must not be changed; empty if it can be changed.
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
    """A topic as it exists in Kafka; ``set_here`` are the configurations that were set on the topic itself."""

    partitions: int
    configs: Mapping[str, str]
    set_here: Mapping[str, str]


class KafkaTopics:
    """The topics of an installation."""

    def __init__(self, settings: KafkaSettings, partitions: Mapping[str, int], replication: int | None = None) -> None:
        """Topics with these numbers of partitions, and one topic for snapshots.

        Args:
            settings: How to reach the cluster.
            partitions: Topic to number of partitions.
            replication: Copies of each record; None: three, or as many as there are brokers.
        """
        self._settings = settings
        self._wanted = {**partitions, SNAPSHOTS: 1}
        self._replication = replication

    async def differences(self) -> list[Change]:
        """Return the differences without changing anything.

        Raises:
            LogUnavailableError: The cluster does not answer.
        """
        async with _admin(self._settings) as admin:
            return [change for name in self._wanted for change in await self._of_topic(admin, name)]

    async def apply(self) -> list[Change]:
        """Apply the differences and return them. If one must not be changed, nothing is changed.

        Raises:
            InputError: A change would separate the future records of a key from its existing ones.
            LogUnavailableError: The cluster does not answer, or rejects a change.
        """
        changes = await self.differences()
        if refused := [change for change in changes if change.refused]:
            raise InputError(
                "; ".join(f"{change.topic}: {change.what} {change.now} -> {change.wanted}: {change.refused}"
                          for change in refused),
                code="topic-in-use",
                hint="keep the number, or create an installation with another prefix and migrate to it",
            )  # fmt: skip
        async with _admin(self._settings) as admin:
            for name in dict.fromkeys(change.topic for change in changes):
                await self._change(admin, name, [change for change in changes if change.topic == name])
        if changes:
            await self._settled()
        return changes

    async def trim(self, before: Mapping[TopicPartition, int]) -> None:
        """Permanently remove the records of each partition below an offset.

        Raises:
            LogUnavailableError: The cluster does not answer, or does not permit it; some may be removed.
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
        """Wait until the brokers show the changes, which the controller propagates to them."""
        deadline = time.monotonic() + SETTLE_S
        while left := await self.differences():
            if time.monotonic() >= deadline:
                raise LogUnavailableError(
                    f"Kafka accepted the changes but does not show them after {SETTLE_S:g} s: {left[0]}",
                    hint="check the brokers' logs, then apply again",
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
        """Why the number of partitions must not change; empty if it may."""
        if partitions > self._wanted[name]:
            return "Kafka cannot remove partitions"
        if name in BY_POOL:
            return ""
        log = KafkaLog(self._settings, {name: partitions})
        try:
            ends = [await log.end(TopicPartition(name, number)) for number in range(partitions)]
        finally:
            await log.close()
        # The first record of a partition is its identity, and has no key.
        keyed = sum(max(0, end - 1) for end in ends)
        return f"it has {keyed} records, whose keys would map to other partitions" if keyed else ""

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
        # Kafka's call replaces all configurations, so those that others set on the topic must be repeated.
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
            f"Kafka at {settings.bootstrap}: {type(error).__name__}: {error}", hint="check that the broker runs there"
        ) from error
    finally:
        await closed(admin.close())


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
            raise LogUnavailableError(f"Kafka rejects the topic {topic}: {kind.__name__}{why}")
