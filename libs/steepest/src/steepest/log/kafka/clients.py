"""The clients of Kafka's protocol: how one is connected, and how it is stopped within a limit.

It owns the life of a client. It must never know what is read or written through it.

A client waits without a limit for its own tasks and connections when it stops, and a task of it may never end once its
broker has died. A process that waits for that does not end on SIGTERM either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from steepest.aio import uncancelled
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.logger import Logger

logger = Logger()

CLIENT_ERRORS = (KafkaError, OSError, TimeoutError)
"""The exceptions that clients raise if the cluster does not answer or refuses."""

STOP_S = 5.0
"""How long a client may take to stop: to leave its group and close its connections takes milliseconds."""

CANCEL_S = 1.0
"""How long a task that was cancelled may take to end; a client may suppress a cancellation."""

CONNECT_S = 30.0
"""How long a client that still connects may take to be stopped: its last request fails before."""

CANCEL_TRIES = 5
"""How often a task is cancelled; one that suppresses all of it is left, and fails once its client has no connections."""

RETRY_MS = 20
"""How long a client waits before it asks again. Its first question about a topic always fails, as it knows no leader yet."""

Client = TypeVar("Client", AIOKafkaConsumer, AIOKafkaProducer)


async def started(client: Client) -> Client:
    """Connect a client; if that fails or is cancelled, stop it, so that no connection is left open."""
    starting = asyncio.ensure_future(client.start())
    try:
        await asyncio.shield(starting)  # the client may suppress the caller's cancellation
    except BaseException:
        await uncancelled(cancelled(starting))
        await stopped(client)
        raise
    return client


async def cancelled(task: asyncio.Future[Any]) -> None:
    """Cancel a client's task until it ends: an answer that comes at the same time makes the client suppress it."""
    for _ in range(CANCEL_TRIES):
        if task.cancel():
            await asyncio.wait([task], timeout=CANCEL_S)
    if task.done() and not task.cancelled():
        task.exception()  # nothing reads it any more


async def stopped(client: AIOKafkaConsumer | AIOKafkaProducer) -> None:
    """Stop a client within some seconds, even if the caller is cancelled; an error of its stop is only logged.

    Raises:
        asyncio.CancelledError: The caller was cancelled; the client has stopped, or never will.
    """
    await uncancelled(_stop(client))


async def _stop(client: AIOKafkaConsumer | AIOKafkaProducer) -> None:
    stopping = asyncio.ensure_future(client.stop())
    await asyncio.wait([stopping], timeout=STOP_S)
    if not stopping.done():
        logger.warning("a client of Kafka does not stop; its connections are closed", after_s=STOP_S)
        # What it waits for fails then, and the stop goes on.
        await closed(_connections(client).close())
    await finished(stopping, CANCEL_S)


async def closed(closing: Coroutine[Any, Any, None]) -> None:
    """Close a part of a client, within ``STOP_S``: then it is cancelled, and left if it suppresses that."""
    await finished(asyncio.ensure_future(closing), STOP_S)


async def finished(task: asyncio.Future[Any], within_s: float) -> None:
    """Wait for a client's task, and cancel it if it takes longer; its error is logged."""
    await asyncio.wait([task], timeout=within_s)
    if not task.done():
        await cancelled(task)
    _log_error(task)


def _log_error(task: asyncio.Future[Any]) -> None:
    if task.done() and not task.cancelled() and (error := task.exception()):
        logger.warning("a client of Kafka stopped with an error", why=f"{type(error).__name__}: {error}")


def _connections(client: Any) -> Any:
    """The holder of a client's connections."""
    return client.client if isinstance(client, AIOKafkaProducer) else client._client  # noqa: SLF001 - no other way in


def consumer(settings: KafkaSettings) -> AIOKafkaConsumer:
    """A client that reads and commits no offsets to Kafka."""
    return AIOKafkaConsumer(
        **settings.client(),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        fetch_max_wait_ms=250,
        max_partition_fetch_bytes=4 << 20,
        retry_backoff_ms=RETRY_MS,
        isolation_level="read_uncommitted",
    )
