"""Assigns a topic's partitions to processes through a Kafka consumer group that is used for nothing else.

It owns joining, leaving, and handing over: a partition is released only after the work on it has stopped. It must never
read a record, or know what is done with a partition.

The client joins, and its partitions are paused immediately. It uses the eager protocol: every rebalance revokes all
partitions of all members and assigns them again. A member without heartbeats for ``SESSION_MS`` counts as dead; if it was
only suspended, it may work for a moment at the same time as its successor. Readers of their outputs do not notice, because
both write the same ids.

The client stops to take part in its group after an error that it does not expect, and says so only to one who polls. So it
is asked once a second; if it failed, or if no assignment came for ``JOIN_S``, another client joins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import CommitFailedError, IllegalGenerationError, IllegalStateError, UnknownMemberIdError

from steepest.errors import LogUnavailableError
from steepest.log.base import TopicPartition
from steepest.log.kafka.clients import CLIENT_ERRORS, started, stopped
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.logger import Logger

logger = Logger()

SESSION_MS = 6_000
"""The minimum that brokers accept: a dead member's partitions are not processed for that time."""

HEARTBEAT_MS = 1_000

ASK_AGAIN_S = 1.0
"""Between two attempts to ask a coordinator that does not answer, and between two looks at the client."""

HAND_OVER_MS = 30_000
"""How long a member may take to finish its batch and save its snapshots before the others continue without it."""

JOIN_S = 60.0
"""How long an assignment may take to come: a rebalance takes a dead member's session and ``HAND_OVER_MS`` at most."""


class KafkaAssignment:
    """This process's share of a topic's partitions, which changes over time.

    Attributes:
        partitions: The partitions that are assigned now.
        revoked: Set when they must be released; replaced by a new event after each assignment.
    """

    def __init__(self, settings: KafkaSettings, partitions: Sequence[TopicPartition], member_of: str) -> None:
        """Assign these partitions of one topic by the group ``member_of``, which the first ``take`` joins."""
        self.partitions: Sequence[TopicPartition] = ()
        self.revoked = asyncio.Event()
        self._settings = settings
        self._known = partitions
        self._topic = partitions[0].topic
        self._group = settings.prefix + member_of
        self._client: AIOKafkaConsumer | None = None
        self._watching: asyncio.Task[None] | None = None
        self._failure = ""
        self._assigned = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    async def take(self) -> Sequence[TopicPartition]:
        """Wait for an assignment and start to work on it, until ``give_back``.

        Raises:
            LogUnavailableError: The group cannot be joined at the moment.
        """
        if self._client is None:
            await self._join()
        try:
            async with asyncio.timeout(JOIN_S):
                await self._assigned.wait()
        except TimeoutError:
            self._failure = f"no assignment came within {JOIN_S:g} s"
        if self._failure:
            why = self._failure
            await self.close()
            raise self._cannot_join(why)
        self._idle.clear()
        return self.partitions

    async def is_held(self, at: TopicPartition) -> bool:
        """Whether the group counts this member in its present generation, and the share is not to be given back.

        It is the group's coordinator that answers: it refuses an offset of a member that it has replaced. So a process that
        was suspended learns from it, and not from its own clock, that it has lost its share.
        """
        while self._client is not None and not self.revoked.is_set() and at in self.partitions:
            try:
                await self._client.commit({KafkaPartition(self._settings.prefix + at.topic, at.partition): 0})
            except (CommitFailedError, IllegalStateError, UnknownMemberIdError, IllegalGenerationError):
                return False
            except CLIENT_ERRORS as error:
                logger.warning("it is not known whether this share is still held", at=str(at), why=str(error))
                await asyncio.sleep(ASK_AGAIN_S)
            else:
                return not self.revoked.is_set()
        return False

    def give_back(self) -> None:
        """The work on the assignment has stopped: it may be assigned to others, or taken again."""
        self._idle.set()

    async def close(self) -> None:
        """Leave the group, so that the others need not wait for the session timeout."""
        client, self._client = self._client, None
        if self._watching is not None:
            self._watching.cancel()
        if client is not None:
            self.give_back()
            await stopped(client)

    async def _join(self) -> None:
        self._failure, self.partitions = "", ()
        self._assigned.clear()
        client = AIOKafkaConsumer(
            **self._settings.client(),
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            rebalance_timeout_ms=HAND_OVER_MS,
            # It never polls records, so the poll interval says nothing about liveness: health checks do that.
            max_poll_interval_ms=2**31 - 1,
        )
        client.subscribe([self._settings.prefix + self._topic], listener=_Listener(self, client))
        self._client = client
        try:
            async with asyncio.timeout(JOIN_S):  # it waits for its first assignment
                await started(client)
        except CLIENT_ERRORS as error:
            self._client = None
            raise self._cannot_join(f"{type(error).__name__}: {error}") from error
        except BaseException:
            self._client = None
            raise
        self._watching = asyncio.create_task(self._watch(client))

    async def _watch(self, client: AIOKafkaConsumer) -> None:
        """Notice that the client does not take part in the group any more: then the share must be given back."""
        while not self._failure:
            await asyncio.sleep(ASK_AGAIN_S)
            try:
                await client.getmany(timeout_ms=0)  # its partitions are paused, so it gets none
            except Exception as error:  # noqa: BLE001 - any error can have ended a task of the client
                self._failure = f"the client failed: {type(error).__name__}: {error}"
        self.revoked.set()
        self._assigned.set()

    def _cannot_join(self, why: str) -> LogUnavailableError:
        return LogUnavailableError(f"Kafka at {self._settings.bootstrap}: cannot join {self._group}: {why}")

    def is_member(self, client: AIOKafkaConsumer) -> bool:
        """Whether this is the client that takes part now: one that was left may still call."""
        return client is self._client

    async def give_up(self) -> None:
        """Called by the group: request the release of the assignment, and wait for it."""
        # Before the work is asked to stop: when it does, it must wait for the next assignment and not take this one again.
        self._assigned.clear()
        self.revoked.set()
        await self._idle.wait()
        self.partitions = ()

    def get(self, partitions: Iterable[Any]) -> None:
        """Called by the group: these partitions are assigned now."""
        assigned = sorted(TopicPartition(self._topic, one.partition) for one in partitions)
        self.partitions = [at for at in assigned if at in self._known]
        if unknown := [str(at) for at in assigned if at not in self._known]:
            logger.info("partitions of pools that this process has not read of yet are left alone", at=unknown)
        self.revoked = asyncio.Event()
        self._assigned.set()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the client has no types
    def __init__(self, share: KafkaAssignment, client: AIOKafkaConsumer) -> None:
        self._share = share
        self._client = client

    async def on_partitions_revoked(self, revoked: Sequence[KafkaPartition]) -> None:
        del revoked  # the eager protocol: all of them
        if self._share.is_member(self._client):
            await self._share.give_up()

    async def on_partitions_assigned(self, assigned: Sequence[KafkaPartition]) -> None:
        self._client.pause(*assigned)
        if self._share.is_member(self._client):
            self._share.get(assigned)
