"""Which partitions of a topic are this process's: a place in a consumer group that is used for nothing else.

It owns joining, leaving, and handing over: a partition is given up only after whoever works on it has stopped. It must
never read a record, or know what is done with a partition.

The client joins, and its partitions are paused at once. Its protocol is the eager one: at every change all partitions of
all members are given up and dealt anew. A member that was not heard of for ``SESSION_MS`` is taken for dead; if it was
only asleep it may work on for a moment beside its successor, which readers of their outputs do not see, because the ids
of both are the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as KafkaPartition

from steepest.errors import LogUnavailableError
from steepest.log.base import TopicPartition
from steepest.log.kafka.kafka_reader import CLIENT_ERRORS, started
from steepest.log.kafka.kafka_settings import KafkaSettings

SESSION_MS = 6_000
"""The least that brokers take: a dead member's partitions stand still for as long."""

HEARTBEAT_MS = 1_000

HAND_OVER_MS = 30_000
"""Longest time for which a member may finish its batch and keep its snapshots before the others go on without it."""


class KafkaAssignment:
    """A changing share of a topic's partitions.

    Attributes:
        partitions: Those that are ours now.
        revoked: Set when they are to be given up; another event after each change.
    """

    def __init__(self, settings: KafkaSettings, topic: str, member_of: str) -> None:
        """Join the group ``member_of`` of a topic when first asked."""
        self.partitions: Sequence[TopicPartition] = ()
        self.revoked = asyncio.Event()
        self._settings = settings
        self._topic = topic
        self._group = settings.prefix + member_of
        self._client: AIOKafkaConsumer | None = None
        self._assigned = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    async def take(self) -> Sequence[TopicPartition]:
        """Wait for a share and begin to work on it; ``give_back`` ends that.

        Raises:
            LogUnavailableError: The group cannot be joined now.
        """
        if self._client is None:
            await self._join()
        await self._assigned.wait()
        self._idle.clear()
        return self.partitions

    def give_back(self) -> None:
        """Nobody works on the share any more: it may be dealt to others, or be taken again."""
        self._idle.set()

    async def close(self) -> None:
        """Leave the group, so that the others need not wait for our silence."""
        client, self._client = self._client, None
        if client is not None:
            self.give_back()
            with contextlib.suppress(*CLIENT_ERRORS):
                await client.stop()

    async def _join(self) -> None:
        client = AIOKafkaConsumer(
            **self._settings.client(),
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            rebalance_timeout_ms=HAND_OVER_MS,
            # It never polls: whether this process works is another question, and is asked elsewhere.
            max_poll_interval_ms=2**31 - 1,
        )
        client.subscribe([self._settings.prefix + self._topic], listener=_Listener(self, client))
        try:
            self._client = await started(client)
        except CLIENT_ERRORS as error:
            raise LogUnavailableError(
                f"Kafka at {self._settings.bootstrap}: cannot join {self._group}: {type(error).__name__}: {error}"
            ) from error

    async def give_up(self) -> None:
        """Called by the group: say that the share is to be given up, and wait until it is."""
        self._assigned.clear()
        self.revoked.set()
        await self._idle.wait()
        self.partitions = ()

    def get(self, partitions: Iterable[Any]) -> None:
        """Called by the group: these are ours now."""
        self.partitions = sorted(TopicPartition(self._topic, one.partition) for one in partitions)
        self.revoked = asyncio.Event()
        self._assigned.set()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the client has no types
    def __init__(self, share: KafkaAssignment, client: AIOKafkaConsumer) -> None:
        self._share = share
        self._client = client

    async def on_partitions_revoked(self, revoked: Sequence[KafkaPartition]) -> None:
        del revoked  # the eager protocol: all of them
        await self._share.give_up()

    async def on_partitions_assigned(self, assigned: Sequence[KafkaPartition]) -> None:
        self._client.pause(*assigned)
        self._share.get(assigned)
