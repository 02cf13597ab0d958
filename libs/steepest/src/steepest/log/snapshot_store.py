"""Where deciders keep snapshots of their state: the newest of each, and the one before it.

It owns keeping them whole. It must never know what is in one. A snapshot only saves time: whoever finds none folds the
log from its start, so one that cannot be trusted is treated as absent, with a warning.
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
import structlog

from steepest.errors import InputError, LogUnavailableError
from steepest.log.files.atomic_write import write_atomically

NEWEST = ".snapshot"
PREVIOUS = ".previous"

MAX_NAME_BYTES = 200
"""File systems take names of 255 bytes; the endings need some of them."""

_log = structlog.get_logger(__name__)


class SnapshotStore(Protocol):
    """Keeps the newest snapshot for each key. One writer a key."""

    async def save(self, key: str, data: bytes) -> None:
        """Keep a snapshot in the place of the key's last one, in full or not at all.

        Raises:
            InputError: The key cannot be one.
            LogUnavailableError: It is not kept; the last one still is.
        """

    async def load(self, key: str) -> Sequence[bytes]:
        """The sound snapshots of the key that are kept, the newest first; one that is damaged is told and left out."""

    async def keys(self) -> Sequence[str]:
        """The keys under which anything is kept, sorted."""


class MemorySnapshots:
    """A ``SnapshotStore`` that lives as long as its process."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def save(self, key: str, data: bytes) -> None:
        """See ``SnapshotStore.save``."""
        file_name(key)
        self._kept[key] = data

    async def load(self, key: str) -> Sequence[bytes]:
        """See ``SnapshotStore.load``."""
        return [self._kept[key]] if key in self._kept else []

    async def keys(self) -> Sequence[str]:
        """See ``SnapshotStore.keys``."""
        return sorted(self._kept)


class _Head(msgspec.Struct):
    """The first line of a snapshot's file; the data follow it as they are."""

    key: str
    sha256: str


class FolderSnapshots:
    """A ``SnapshotStore`` in a folder: for each key a file, and the one before it."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)
        self._saving = threading.Lock()  # a cancelled save goes on in its thread, and must not meet the next one

    async def save(self, key: str, data: bytes) -> None:
        """See ``SnapshotStore.save``. It is on the disk when this returns."""
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
        head = _Head(key=key, sha256=hashlib.sha256(data).hexdigest())
        with self._saving:
            # A damaged one must not push out the sound one before it.
            keep = self._path(key, PREVIOUS) if _read(newest, key) is not None else None
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                write_atomically(newest, msgspec.json.encode(head) + b"\n" + data, keep=keep)
            except OSError as error:
                raise LogUnavailableError(
                    f"{newest}: the snapshot is not kept: {error.strerror} (errno {error.errno})",
                    hint="Make room on the disk, or see to the folder's permissions; until then, starts take longer.",
                ) from error

    def _load(self, key: str) -> Sequence[bytes]:
        found = [_read(self._path(key, ending), key) for ending in (NEWEST, PREVIOUS)]
        return [data for data in found if data is not None]

    def _path(self, key: str, ending: str) -> Path:
        return self._folder / (file_name(key) + ending)


def file_name(key: str) -> str:
    """A key as a name that file systems take.

    Raises:
        InputError: It makes none.
    """
    try:
        name = quote(key, safe="")
    except UnicodeEncodeError as error:
        raise InputError(f"snapshot key {key!r} is no text: {error}", hint="Use Unicode text.") from error
    if not 0 < len(name) <= MAX_NAME_BYTES:
        raise InputError(f"snapshot key {key!r} makes no file name", hint=f"Use 1 to {MAX_NAME_BYTES} letters.")
    return name


def _read(path: Path, key: str) -> bytes | None:
    """The snapshot in a file, if it is there and what was written."""
    try:
        line, _, data = path.read_bytes().partition(b"\n")
        head = msgspec.json.decode(line, type=_Head)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        _log.warning("a snapshot is left alone", file=str(path), reason=str(error))
        return None
    if head.key != key or head.sha256 != hashlib.sha256(data).hexdigest():
        _log.warning("a snapshot is left alone", file=str(path), reason="it is not what was written under this key")
        return None
    return data
