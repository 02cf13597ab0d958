"""How much of a pool's log no service needs any more: what stands before the snapshots that all would start from.

It owns which snapshots there must be. It must never remove anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from steepest.errors import InputError
from steepest.log.base import Log, TopicPartition
from steepest.log.snapshot_store import SnapshotStore
from steepest.runtime.layout import Layout
from steepest.runtime.recovery.loop_snapshots import read_pool_snapshot, read_stream_snapshot, restored
from steepest.runtime.service import Service


async def needed_from(
    log: Log, at: TopicPartition, layout: Layout, services: Iterable[Service], store_of: Callable[[str], SnapshotStore]
) -> int:
    """The first offset of a pool's log that any of these services would ask for if it started now.

    Args:
        log: The log that they run over.
        at: The pool's partition.
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
        if service.follows_pool:
            needed.append(await _by_pool(service, store, log, at))
        for kind in service.stream_deciders:
            for source in layout.of_topic(kind.topic):
                snapshot = await read_stream_snapshot(store, log, kind.name, source)
                if snapshot is None or restored([kind], {kind.name: snapshot.decider}) is None:
                    raise _missing(service, source)
                needed.append(snapshot.scan_from.get(str(at), 0))
    return min(needed)


async def _by_pool(service: Service, store: SnapshotStore, log: Log, at: TopicPartition) -> int:
    snapshot = await read_pool_snapshot(store, log, at)
    if snapshot is None or restored(service.cluster_deciders, snapshot.deciders) is None:
        raise _missing(service, at)
    return max(0, snapshot.view.position - 1)  # the last record that it stands for shows whether it is of this log


def _missing(service: Service, at: TopicPartition) -> InputError:
    return InputError(
        f"{service.name} has kept no snapshot of {at} that this version could start from",
        code="no-snapshot",
        hint="let every service run for an hour; or stop it with SIGTERM once it is ready (/readyz), then it keeps one",
    )
