"""Stores snapshots of deciders' states: the newest of each, and the one before it.

It owns their integrity. It must never know their content. A snapshot only saves time: without one, a process folds the log
from its start. So a snapshot that cannot be trusted is treated as absent, with a warning.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote

import msgspec

from steepest.errors import InputError, LogUnavailableError
from steepest.log.files.atomic_write import write_atomically
from steepest.logger import Logger

NEWEST = ".snapshot"
PREVIOUS = ".previous"

MAX_NAME_BYTES = 200
"""File systems allow names of 255 bytes, of which the endings need some."""

_log = Logger()


class SnapshotStore(Protocol):
    """Stores the newest snapshot of each key. A key has one writer."""

    async def save(self, key: str, data: bytes) -> None:
        """Replace the key's newest snapshot, atomically.

        Raises:
            InputError: The key is invalid.
            LogUnavailableError: It is not stored; the previous one still is.
        """

    async def load(self, key: str) -> Sequence[bytes]:
        """The intact snapshots of the key, the newest first; a damaged one is logged and skipped."""

    async def keys(self) -> Sequence[str]:
        """The keys that have a snapshot, sorted."""


class _SnapshotHeader(msgspec.Struct):
    """The first line of a snapshot's file; the data follow it unchanged."""

    key: str
    sha256: str


class FolderSnapshots:
    """A ``SnapshotStore`` in a folder: for each key the newest file and the previous one."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)
        self._saving = threading.Lock()  # a cancelled save continues in its thread, and must not overlap the next one

    async def save(self, key: str, data: bytes) -> None:
        """See ``SnapshotStore.save``. The snapshot is on the disk when this returns."""
        await asyncio.to_thread(self._save, key, data)

    async def load(self, key: str) -> Sequence[bytes]:
        """See ``SnapshotStore.load``."""
        return await asyncio.to_thread(self._load, key)

    async def keys(self) -> Sequence[str]:
        """See ``SnapshotStore.keys``."""
        files = [(path.name, ending) for ending in (NEWEST, PREVIOUS) for path in self._folder.glob(f"*{ending}")]
        return sorted({unquote(name.removesuffix(ending)) for name, ending in files})

    def _save(self, key: str, data: bytes) -> None:
        newest = self._path(key, NEWEST)
        head = _SnapshotHeader(key=key, sha256=hashlib.sha256(data).hexdigest())
        with self._saving:
            # A damaged file must not replace the intact one before it.
            keep = self._path(key, PREVIOUS) if _read(newest, key) is not None else None
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                write_atomically(newest, msgspec.json.encode(head) + b"\n" + data, keep=keep)
            except OSError as error:
                raise LogUnavailableError(
                    f"{newest}: cannot store the snapshot: {error.strerror} (errno {error.errno})",
                    hint="Free disk space, or check the folder's permissions; until then, starts take longer.",
                ) from error

    def _load(self, key: str) -> Sequence[bytes]:
        found = [_read(self._path(key, ending), key) for ending in (NEWEST, PREVIOUS)]
        return [data for data in found if data is not None]

    def _path(self, key: str, ending: str) -> Path:
        return self._folder / (file_name(key) + ending)


def file_name(key: str) -> str:
    """A key as a valid file name.

    Raises:
        InputError: The key is invalid.
    """
    try:
        name = quote(key, safe="")
    except UnicodeEncodeError as error:
        raise InputError(f"snapshot key {key!r} is not valid text: {error}", hint="Use Unicode text.") from error
    if not 0 < len(name) <= MAX_NAME_BYTES:
        raise InputError(f"snapshot key {key!r} is empty or too long", hint=f"Use 1 to {MAX_NAME_BYTES} letters.")
    return name


def _read(path: Path, key: str) -> bytes | None:
    """The snapshot in a file; None if it is absent or damaged."""
    try:
        line, _, data = path.read_bytes().partition(b"\n")
        head = msgspec.json.decode(line, type=_SnapshotHeader)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        _log.warning("snapshot ignored", file=str(path), reason=str(error))
        return None
    if head.key != key or head.sha256 != hashlib.sha256(data).hexdigest():
        _log.warning("snapshot ignored", file=str(path), reason="its key or checksum does not match")
        return None
    return data
