"""How much of a partition no service needs any more: the records before the snapshots that all would start from.

It owns which snapshots there must be, and when a log in files is trimmed; Kafka trims its topics itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from steepest.clock import Clock
from steepest.errors import InputError, LogUnavailableError
from steepest.log.base import Log, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.log.snapshot_store import SnapshotStore
from steepest.logger import Logger
from steepest.runtime.layout import Layout
from steepest.runtime.recovery.loop_snapshots import (
    SNAPSHOT_AFTER_S,
    read_pool_snapshot,
    read_stream_snapshot,
    restored,
)
from steepest.runtime.service import Service

logger = Logger()


async def keep_trimmed(
    log: FileLog,
    layout: Layout,
    services: Sequence[Service],
    snapshots: SnapshotStore,
    *,
    limits: Callable[[str, int], tuple[int, float]],
    clock: Clock,
) -> None:
    """Trim a log now and every hour, without end, as far as a restart decides the same without what is removed.

    Args:
        log: The log.
        layout: Its topics and partitions.
        services: All that run over it.
        snapshots: Where they keep their snapshots.
        limits: From a topic and the time now to the time since which its records are kept, and how many of their bytes.
        clock: For waits and times.
    """
    while True:
        for at in [at for topic in layout.partitions() for at in layout.of_topic(topic)]:
            try:
                before = await log.kept_from(at, *limits(at.topic, clock.now_ms()))
                if before > await log.begin(at):
                    await log.trim(at, min(before, await needed_from(log, at, layout, services, lambda _: snapshots)))
            except (InputError, LogUnavailableError) as error:
                logger.info("not trimmed before the next hour", partition=str(at), why=str(error))
        await clock.sleep(SNAPSHOT_AFTER_S)


async def needed_from(
    log: Log, at: TopicPartition, layout: Layout, services: Iterable[Service], store_of: Callable[[str], SnapshotStore]
) -> int:
    """The first offset of a partition that any of these services would ask for if it started now.

    Args:
        log: The log that they run over.
        at: A partition of a topic that services read.
        layout: The installation's.
        services: All that run over the log, of the version that is to start from the snapshots.
        store_of: Where the service of a name keeps its snapshots.

    Raises:
        InputError: One of them has no usable snapshot, and would ask for the first record.
        LogUnavailableError: Snapshots cannot be read now.
    """
    needed: list[int] = []
    for service in services:
        store = store_of(service.name)
        if service.follows_pool and at.topic == "cluster":
            needed.append(await _by_pool(service, store, log, at))
        for kind in service.stream_deciders:
            for source in layout.of_topic(kind.topic):
                if at not in (source, TopicPartition("cluster", at.partition)):
                    continue
                snapshot = await read_stream_snapshot(store, log, kind.name, source)
                if snapshot is None or restored([kind], {kind.name: snapshot.decider}) is None:
                    raise _missing(service, source)
                needed.append(_before(snapshot.position) if at == source else snapshot.scan_from.get(str(at), 0))
    return min(needed, default=await log.end(at))


async def _by_pool(service: Service, store: SnapshotStore, log: Log, at: TopicPartition) -> int:
    snapshot = await read_pool_snapshot(store, log, at)
    if snapshot is None or restored(service.cluster_deciders, snapshot.deciders) is None:
        raise _missing(service, at)
    return _before(snapshot.view.position)


def _before(position: int) -> int:
    """The last record that a snapshot stands for shows whether it is of this log."""
    return max(0, position - 1)


def _missing(service: Service, at: TopicPartition) -> InputError:
    return InputError(
        f"{service.name} has kept no snapshot of {at} that this version could start from",
        code="no-snapshot",
        hint="let every service run for an hour; or stop it with SIGTERM once it is ready (/readyz), then it keeps one",
    )
