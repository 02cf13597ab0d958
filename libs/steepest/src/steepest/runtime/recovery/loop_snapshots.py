"""Snapshots of loops and how they are kept: state and position, of one version.

It owns what makes a snapshot unusable: another version or form, another set of deciders, deciders of another logic, a log
that no longer holds the records that the snapshot stands for. Then the log is folded from the snapshot before it or from
its beginning, which costs time and nothing else. For the same reason one that cannot be kept is only logged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from steepest.errors import LogUnavailableError
from steepest.log.base import Log, TopicPartition
from steepest.log.snapshot_store import SnapshotStore
from steepest.logger import Logger
from steepest.policies.decider import ClusterDecider, StreamDecider
from steepest.runtime.recovery.checksum_marks import Mark, Positions, marks, why_not
from steepest.runtime.recovery.log_identity import check_epoch
from steepest.runtime.service import DeciderType
from steepest.view.state import STATE_VERSION, ViewState

logger = Logger()

SNAPSHOT_AFTER_S = 3600.0
"""Age of a loop's newest snapshot at which it keeps another, however few records came. The records behind the oldest
snapshot must be kept, so an old one of a quiet partition would hold up the trimming of all others."""

VERSION = (3, STATE_VERSION)
"""Version of the forms here, and of the view's state."""


class DeciderState(msgspec.Struct, frozen=True):
    """The state of a decider, with its logic."""

    logic: int
    state: bytes


class PoolSnapshot(msgspec.Struct, kw_only=True):
    """A pool's view and its deciders at one position.

    Attributes:
        deciders: Their states by name.
        last_ids: Per decider and output partition, the newest id made.
        dead_letters_from: Where ``dead-letters`` ended: dead letters about what comes after the snapshot stand beyond.
        marks: What stood before the log's end: all that the view holds, and all that the deciders made of it.
    """

    version: tuple[int, int] = VERSION
    view: ViewState
    deciders: dict[str, DeciderState]
    last_ids: dict[str, dict[str, str]]
    dead_letters_from: int
    marks: tuple[Mark, ...] = ()

    @property
    def epoch(self) -> str:
        """Which log it is of."""
        return self.view.epoch


class StreamSnapshot(msgspec.Struct, kw_only=True):
    """A stream decider at one position of one partition.

    Attributes:
        scan_from: Where each output partition ended: what was made after the snapshot stands beyond.
        truncations: How often the partition has lost its newest records.
        marks: What stood before the position, and before the ends of the output partitions.
    """

    version: tuple[int, int] = VERSION
    epoch: str
    position: int
    decider: DeciderState
    last_ids: dict[str, str]
    scan_from: dict[str, int]
    truncations: int = 0
    marks: tuple[Mark, ...] = ()


S = TypeVar("S", PoolSnapshot, StreamSnapshot)
D = TypeVar("D")
StateT = TypeVar("StateT", bound=msgspec.Struct)


async def keep_pool_snapshot(
    store: SnapshotStore, log: Log, at: TopicPartition, snapshot: PoolSnapshot, *, stands_for: Positions
) -> None:
    """Keep a pool's snapshot, if that is possible now. It covers the records before these positions.

    Raises:
        LogUnavailableError: The log may not have them.
    """
    await _keep(store, log, _key("pool", at), snapshot, stands_for)


async def keep_stream_snapshot(
    store: SnapshotStore, log: Log, decider: str, at: TopicPartition, snapshot: StreamSnapshot, *, stands_for: Positions
) -> None:
    """Keep a stream decider's snapshot, if that is possible now. It covers the records before these positions.

    Raises:
        LogUnavailableError: The log may not have them.
    """
    await _keep(store, log, _key(decider, at), snapshot, stands_for)


async def read_pool_snapshot(store: SnapshotStore, log: Log, at: TopicPartition) -> PoolSnapshot | None:
    """The newest usable snapshot of a pool; None: fold from the beginning.

    Raises:
        LogEpochError: It is of another log.
        LogUnavailableError: The log gives nothing now.
    """
    return await _read(store, log, at, _key("pool", at), PoolSnapshot)


async def read_stream_snapshot(
    store: SnapshotStore, log: Log, decider: str, at: TopicPartition
) -> StreamSnapshot | None:
    """The newest usable snapshot of a stream decider; None: fold from the beginning.

    Raises:
        LogEpochError: It is of another log.
        LogUnavailableError: The log gives nothing now.
    """
    return await _read(store, log, at, _key(decider, at), StreamSnapshot)


async def _keep(
    store: SnapshotStore, log: Log, key: str, snapshot: PoolSnapshot | StreamSnapshot, stands_for: Positions
) -> None:
    await log.sync(stands_for)
    snapshot.marks = await marks(log, stands_for)
    try:
        await store.save(key, msgspec.msgpack.encode(snapshot))
    except LogUnavailableError as error:
        logger.warning("no snapshot kept; a restart takes longer", of=key, why=str(error), hint=error.hint)


async def _read(store: SnapshotStore, log: Log, at: TopicPartition, key: str, kind: type[S]) -> S | None:
    for data in await store.load(key):
        snapshot, why = _decoded(data, kind)
        if snapshot is not None:
            await check_epoch(log, at, snapshot.epoch)
            if not (why := await why_not(log, snapshot.marks)):
                return snapshot
        logger.warning("snapshot not used; folding from the one before it, or the beginning", of=key, why=why)
    return None


def _decoded(data: bytes, kind: type[S]) -> tuple[S | None, str]:
    """A snapshot, or why it is none."""
    try:
        if msgspec.msgpack.decode(data, type=_Version).version == VERSION:
            return msgspec.msgpack.decode(data, type=kind), ""
    except msgspec.DecodeError as error:
        return None, str(error)
    return None, "it is of another version"


def state_of(decider: ClusterDecider | StreamDecider) -> DeciderState:
    """A decider's state, for a snapshot."""
    return DeciderState(decider.logic, msgspec.msgpack.encode(decider.state))


def restored(kinds: Sequence[DeciderType[D, Any]], states: dict[str, DeciderState]) -> list[D] | None:
    """Deciders with the states that a snapshot holds; None where it does not hold all of them in this form and logic."""
    found = [_restored(kind, states.get(kind.name)) for kind in kinds]
    made = [one for one in found if one is not None]
    if len(made) < len(found):
        logger.warning("snapshot not used: it does not hold the states of all deciders")
        return None
    return made


def restored_or_new(kinds: Sequence[DeciderType[D, Any]], states: dict[str, DeciderState]) -> list[D]:
    """Restore deciders; one whose state the snapshot does not hold begins with an empty state.

    This is for a log whose beginning is gone. What such a decider would decide about the removed records stays undecided
    until a later record concerns the same job or node.
    """
    return [_restored(kind, states.get(kind.name)) or kind() for kind in kinds]


def _restored(kind: DeciderType[D, StateT], kept: DeciderState | None) -> D | None:
    if kept is None or kept.logic != kind.logic:
        logger.warning("snapshot has no state of this decider and logic", decider=kind.name)
        return None
    try:
        return kind(msgspec.msgpack.decode(kept.state, type=kind.state_type))
    except msgspec.DecodeError as error:
        logger.warning("a decider's state has another form", decider=kind.name, why=str(error))
        return None


class _Version(msgspec.Struct):
    version: tuple[int, int]


def _key(name: str, at: TopicPartition) -> str:
    """The version is part of it, so that the snapshots of the version before stay for a roll-back."""
    return f"{name}-{at.topic}-{at.partition}-v{'.'.join(map(str, VERSION))}"
