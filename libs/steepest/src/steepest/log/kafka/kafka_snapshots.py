"""Snapshots in a compacted topic: chunks, followed by a manifest with their checksum.

It owns the format of the records. It must never know the content of a snapshot. It works on any ordered log; only Kafka's
compaction removes what was replaced.

Each key has two slots, which are written in turn: a process that dies while writing one leaves the other intact, and a slot
that two processes wrote concurrently has a wrong digest and is skipped.

=========================  =====================================================================================
record key                 value
=========================  =====================================================================================
``SCOPE/KEY/SLOT/NUMBER``  a chunk of the snapshot's bytes
``SCOPE/KEY/SLOT``         the manifest as JSON: sequence, number of chunks, SHA-256; it stands behind the chunks
=========================  =====================================================================================
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import msgspec

from steepest.log.base import Log, NewRecord, TopicPartition
from steepest.log.snapshot_store import file_name
from steepest.logger import Logger

CHUNK_BYTES = 500 * 1024
"""Below half a MiB: within a broker's default record limit, with room for key and batch."""

SLOTS = (0, 1)
MANIFEST_DEPTH = 2
"""Number of slashes in a manifest's record key; those in the snapshot's own key are quoted."""

_log = Logger()


class SnapshotManifest(msgspec.Struct, frozen=True):
    """The content of a slot. ``sequence`` increases with every snapshot of a key."""

    sequence: int
    chunks: int
    sha256: str


class SeenSnapshots(msgspec.Struct):
    """The part of the partition read so far, for stores that are opened together and read it once.

    Attributes:
        position: Where the next read begins.
        newest: The newest value of each record key.
    """

    position: int = 0
    newest: dict[str, bytes] = {}


class LogSnapshots:
    """A ``steepest.log.snapshot_store.SnapshotStore`` in one partition of a log."""

    def __init__(self, log: Log, at: TopicPartition, scope: str, seen: SeenSnapshots | None = None) -> None:
        """Store snapshots under keys that start with ``scope``, so that services do not collide.

        Args:
            log: Where they are stored.
            at: The partition.
            scope: The service's name.
            seen: What several stores have read together; None: each load reads the whole partition, and remembers nothing.
        """
        self._source = log
        self._at = at
        self._scope = scope
        self._seen = seen
        self._newest: dict[str, tuple[int, int]] = {}

    async def save(self, key: str, data: bytes) -> None:
        """See ``SnapshotStore.save``: the snapshot is stored once the manifest is acknowledged."""
        name = self._name(key)
        if name not in self._newest:
            await self.load(key)
        slot, sequence = self._newest[name]
        slot, sequence = SLOTS[(slot + 1) % len(SLOTS)], sequence + 1
        chunks = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
        manifest = SnapshotManifest(sequence, len(chunks), hashlib.sha256(data).hexdigest())
        values = {f"{name}/{slot}/{number}": chunk for number, chunk in enumerate(chunks)}
        # Last: without it, the slot's older manifest does not match the new chunks, and the slot is skipped.
        values[f"{name}/{slot}"] = msgspec.json.encode(manifest)
        now_ms = time.time_ns() // 1_000_000
        records = [NewRecord(to=self._at, key=key, value=value, at_ms=now_ms) for key, value in values.items()]
        await self._source.append(records)
        self._newest[name] = (slot, sequence)

    async def load(self, key: str) -> Sequence[bytes]:
        """See ``SnapshotStore.load``. It reads the whole partition, which compaction keeps short.

        Raises:
            LogUnavailableError: The log cannot be read now; a snapshot may exist.
        """
        name = self._name(key)
        found = await self._records(f"{name}/")
        manifests = {slot: manifest for slot in SLOTS if (manifest := _manifest(found.get(f"{name}/{slot}")))}
        by_age = sorted(manifests.items(), key=lambda item: item[1].sequence, reverse=True)
        highest = by_age[0][1].sequence if by_age else 0
        self._newest[name] = (SLOTS[-1], highest)
        sound: dict[int, bytes] = {}
        for slot, manifest in by_age:
            data = b"".join(found.get(f"{name}/{slot}/{number}", b"") for number in range(manifest.chunks))
            if hashlib.sha256(data).hexdigest() == manifest.sha256:
                sound[slot] = data
            else:
                _log.warning("snapshot ignored", of=name, why="its chunks do not match its manifest")
        if sound:
            self._newest[name] = (next(iter(sound)), highest)  # the next save overwrites the other slot
        return list(sound.values())

    async def keys(self) -> Sequence[str]:
        """See ``SnapshotStore.keys``."""
        found = await self._records(f"{self._scope}/")
        manifests = [key.split("/") for key in found if key.count("/") == MANIFEST_DEPTH]
        return sorted({unquote(name) for _, name, _ in manifests})

    def _name(self, key: str) -> str:
        return f"{self._scope}/{file_name(key)}"

    async def _records(self, prefix: str) -> Mapping[str, bytes]:
        """The newest value of each record key with that prefix."""
        seen = SeenSnapshots() if self._seen is None else self._seen
        end = await self._source.end(self._at)
        if seen.position < end:
            reader = self._source.reader({self._at: seen.position})
            try:
                while seen.position < end:
                    for record in await reader.poll():
                        seen.position = record.offset + 1
                        if (self._seen is not None or record.key.startswith(prefix)) and not record.damage:
                            seen.newest[record.key] = record.value
            finally:
                await reader.close()
        return {key: value for key, value in seen.newest.items() if key.startswith(prefix)}


def _manifest(value: bytes | None) -> SnapshotManifest | None:
    try:
        return msgspec.json.decode(value, type=SnapshotManifest) if value else None
    except msgspec.DecodeError:
        return None
