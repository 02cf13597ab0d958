"""What a snapshot of a loop holds, and how it is kept: state and position, of one version.

It owns what makes a snapshot unusable: another version or form, another set of deciders, deciders of another logic. Then
the log is folded from its beginning, which costs time and nothing else. For the same reason one that cannot be kept is
only told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import structlog

from steepest.errors import LogUnavailableError
from steepest.log.base import TopicPartition
from steepest.log.snapshots import SnapshotStore
from steepest.view.state import STATE_VERSION, ViewState

logger = structlog.get_logger(__name__)

SNAPSHOT_AFTER_S = 3600.0
"""Age of a loop's newest snapshot at which it keeps another, however few records came: what stands before the oldest
snapshot must be kept, so that one of a quiet partition would hold up the trimming of all others."""

VERSION = (2, STATE_VERSION)
"""Version of the forms here, and of the view's state."""


class DeciderState(msgspec.Struct, frozen=True):
    """What a decider of one logic remembers."""

    logic: int
    state: bytes


class PoolSnapshot(msgspec.Struct, kw_only=True):
    """A pool's view and its deciders at one position.

    Attributes:
        deciders: Their states by name.
        last_ids: Per decider and output partition, the newest id made.
        letters_from: Where ``dead-letters`` ended: letters about what comes after the snapshot stand beyond.
    """

    version: tuple[int, int] = VERSION
    view: ViewState
    deciders: dict[str, DeciderState]
    last_ids: dict[str, dict[str, str]]
    letters_from: int


class StreamSnapshot(msgspec.Struct, kw_only=True):
    """A stream decider at one position of one partition.

    Attributes:
        scan_from: Where each output partition ended: what was made after the snapshot stands beyond.
    """

    version: tuple[int, int] = VERSION
    epoch: str
    position: int
    decider: DeciderState
    last_ids: dict[str, str]
    scan_from: dict[str, int]


S = TypeVar("S", PoolSnapshot, StreamSnapshot)


async def keep_pool_snapshot(store: SnapshotStore, at: TopicPartition, snapshot: PoolSnapshot) -> None:
    """Keep a pool's snapshot, if that is possible now."""
    await _keep(store, _key("pool", at), snapshot)


async def keep_stream_snapshot(
    store: SnapshotStore, decider: str, at: TopicPartition, snapshot: StreamSnapshot
) -> None:
    """Keep a stream decider's snapshot, if that is possible now."""
    await _keep(store, _key(decider, at), snapshot)


async def read_pool_snapshot(store: SnapshotStore, at: TopicPartition) -> PoolSnapshot | None:
    """The newest usable snapshot of a pool; None: fold from the beginning."""
    return await _read(store, _key("pool", at), PoolSnapshot)


async def read_stream_snapshot(store: SnapshotStore, decider: str, at: TopicPartition) -> StreamSnapshot | None:
    """The newest usable snapshot of a stream decider; None: fold from the beginning."""
    return await _read(store, _key(decider, at), StreamSnapshot)


async def _keep(store: SnapshotStore, key: str, snapshot: PoolSnapshot | StreamSnapshot) -> None:
    try:
        await store.save(key, msgspec.msgpack.encode(snapshot))
    except LogUnavailableError as error:
        logger.warning("no snapshot kept; a restart takes longer", of=key, why=str(error), mend=error.mend)


async def _read(store: SnapshotStore, key: str, kind: type[S]) -> S | None:
    data = await store.load(key)
    if data is None:
        return None
    try:
        if msgspec.msgpack.decode(data, type=_Version).version == VERSION:
            return msgspec.msgpack.decode(data, type=kind)
        why = "it is of another version"
    except msgspec.DecodeError as error:
        why = str(error)
    logger.warning("snapshot not used; folding from the beginning", of=key, why=why)
    return None


def state_of(decider: Any) -> DeciderState:
    """A decider's state, for a snapshot."""
    return DeciderState(decider.logic, msgspec.msgpack.encode(decider.state))


def restored(kinds: Sequence[Any], states: dict[str, DeciderState]) -> list[Any] | None:
    """Deciders with the states that a snapshot holds; None where it does not hold all of them in this form and logic."""
    made = []
    for kind in kinds:
        kept = states.get(kind.name)
        if kept is None or kept.logic != kind.logic:
            logger.warning("snapshot not used: it has no state of this decider and logic", decider=kind.name)
            return None
        try:
            made.append(kind(msgspec.msgpack.decode(kept.state, type=kind.state_type)))
        except msgspec.DecodeError as error:
            logger.warning("snapshot not used: a decider's state has another form", decider=kind.name, why=str(error))
            return None
    return made


class _Version(msgspec.Struct):
    version: tuple[int, int]


def _key(name: str, at: TopicPartition) -> str:
    """The version is part of it, so that the snapshots of the version before stay for a roll-back."""
    return f"{name}-{at.topic}-{at.partition}-v{'.'.join(map(str, VERSION))}"
