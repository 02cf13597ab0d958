"""How much of a pool's log no service needs any more: what stands before the snapshots that all would start from.

It owns which snapshots there must be. It must never remove anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from steepest.errors import InputError
from steepest.log.base import TopicPartition
from steepest.log.snapshots import SnapshotStore
from steepest.runtime.layout import Layout
from steepest.runtime.service import Service
from steepest.runtime.snapshots import read_pool_snapshot, read_stream_snapshot, restored


async def needed_from(
    at: TopicPartition, layout: Layout, services: Iterable[Service], store_of: Callable[[str], SnapshotStore]
) -> int:
    """The first offset of a pool's log that any of these services would ask for if it started now.

    Args:
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
            needed.append(await _by_pool(service, store, at))
        for kind in service.stream_deciders:
            needed += [await _by_stream(service, kind, store, source, at) for source in layout.of_topic(kind.topic)]
    return min(needed)


async def _by_pool(service: Service, store: SnapshotStore, at: TopicPartition) -> int:
    snapshot = await read_pool_snapshot(store, at)
    if snapshot is None or restored(service.cluster_deciders, snapshot.deciders) is None:
        raise _missing(service, at)
    return max(0, snapshot.view.position - 1)  # the last record that it stands for says whether it is of this log


async def _by_stream(
    service: Service, kind: Any, store: SnapshotStore, source: TopicPartition, at: TopicPartition
) -> int:
    snapshot = await read_stream_snapshot(store, kind.name, source)
    if snapshot is None or restored([kind], {kind.name: snapshot.decider}) is None:
        raise _missing(service, source)
    return snapshot.scan_from.get(str(at), 0)


def _missing(service: Service, at: TopicPartition) -> InputError:
    return InputError(
        f"{service.name} has kept no snapshot of {at} that this version could start from",
        code="no-snapshot",
        mend="let every service run for an hour, or stop it with SIGTERM: then it keeps one; trim afterwards",
    )
