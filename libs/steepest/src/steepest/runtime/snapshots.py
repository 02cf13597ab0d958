"""What a snapshot of a loop holds, and how it is kept: state and position, of one version."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import structlog

from steepest.log.base import TopicPartition
from steepest.log.snapshots import SnapshotStore
from steepest.view.state import ViewState

logger = structlog.get_logger(__name__)

VERSION = 1
"""Version of all that is in a snapshot; one of another version is not used, and the log is folded from its beginning."""


class PoolSnapshot(msgspec.Struct, kw_only=True):
    """A pool's view and its deciders at one position."""

    version: int = VERSION
    view: ViewState
    deciders: dict[str, bytes]
    last_ids: dict[str, dict[str, str]]

    async def write(self, store: SnapshotStore, at: TopicPartition) -> None:
        """Keep it."""
        await store.save(_key("pool", at), msgspec.msgpack.encode(self))


class StreamSnapshot(msgspec.Struct, kw_only=True):
    """A stream decider at one position of one partition.

    Attributes:
        scan_from: Where each output partition ended: what was made after the snapshot stands beyond.
    """

    version: int = VERSION
    epoch: str
    position: int
    state: bytes
    last_ids: dict[str, str]
    scan_from: dict[str, int]

    async def write(self, store: SnapshotStore, decider: str, at: TopicPartition) -> None:
        """Keep it."""
        await store.save(_key(decider, at), msgspec.msgpack.encode(self))


S = TypeVar("S", PoolSnapshot, StreamSnapshot)


async def read_pool_snapshot(store: SnapshotStore, at: TopicPartition) -> PoolSnapshot | None:
    """The newest usable snapshot of a pool; None: fold from the beginning."""
    return await _read(store, _key("pool", at), PoolSnapshot)


async def read_stream_snapshot(store: SnapshotStore, decider: str, at: TopicPartition) -> StreamSnapshot | None:
    """The newest usable snapshot of a stream decider; None: fold from the beginning."""
    return await _read(store, _key(decider, at), StreamSnapshot)


async def _read(store: SnapshotStore, key: str, kind: type[S]) -> S | None:
    data = await store.load(key)
    if data is None:
        return None
    try:
        snapshot = msgspec.msgpack.decode(data, type=kind)
    except msgspec.DecodeError as error:
        logger.warning("snapshot of another form; folding from the beginning", key=key, why=str(error))
        return None
    if snapshot.version != VERSION:
        logger.warning("snapshot of another version; folding from the beginning", key=key, version=snapshot.version)
        return None
    return snapshot


def _key(name: str, at: TopicPartition) -> str:
    return f"{name}-{at.topic}-{at.partition}"
