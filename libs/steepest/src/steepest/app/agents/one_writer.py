"""Snapshots of a service whose processes all keep the same ones: of each key one of them writes, the holder of a lock.

It owns who writes. All agents of a pool fold the same log into the same view: if each of them wrote, the snapshots would
grow with the nodes, and what two write at the same time would be worth nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from steepest.cluster.folders import incarnation_locks
from steepest.log.snapshot_store import SnapshotStore, file_name
from steepest.logger import Logger

_log = Logger()


class OneWriter:
    """A ``SnapshotStore`` that writes only while it holds a lock, which ends with its holder.

    Args:
        store: What is written to.
        locks: A folder on the volume that all these processes share.
    """

    def __init__(self, store: SnapshotStore, locks: Path) -> None:
        self._store = store
        self._locks = locks
        self._held: dict[str, int] = {}

    async def save(self, key: str, data: bytes) -> None:
        """See ``SnapshotStore.save``; without the lock nothing is kept."""
        if key not in self._held:
            lock = await asyncio.to_thread(self._locked, key)
            if lock is None:
                return
            self._held[key] = lock
            await self._store.load(key)  # another process was the writer meanwhile
        await self._store.save(key, data)

    async def load(self, key: str) -> Sequence[bytes]:
        """See ``SnapshotStore.load``."""
        return await self._store.load(key)

    async def keys(self) -> Sequence[str]:
        """See ``SnapshotStore.keys``."""
        return await self._store.keys()

    def close(self) -> None:
        """Let another process write."""
        for lock in self._held.values():
            os.close(lock)
        self._held.clear()

    def _locked(self, key: str) -> int | None:
        try:
            self._locks.mkdir(exist_ok=True, mode=0o700)
            return incarnation_locks.take(self._locks / file_name(key), 0.0)
        except OSError as error:
            _log.warning("no snapshot kept; a restart takes longer", of=key, why=str(error))
            return None
