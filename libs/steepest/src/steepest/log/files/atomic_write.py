"""Atomic writes of small files. It must never know what a file contains."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def private(path: str, flags: int) -> int:
    """An opener for files that only this user may read, regardless of the umask."""
    return os.open(path, flags, 0o600)


def write_atomically(path: Path, data: bytes | Iterable[bytes], *, keep: Path | None = None) -> None:
    """Write a temporary file in the same folder, sync, and rename it into place; this also survives a power loss.

    One writer at a time for each path. Only this user may read the file.

    Args:
        path: The file's path.
        data: The file's whole content, or its parts.
        keep: Where to move the previous file, immediately before the new one replaces it.

    Raises:
        OSError: The new file may not be in place; the previous one is still there, or at ``keep``.
    """
    temporary = path.with_name(f".{path.name}.aside")  # the name that earlier versions may have left behind
    try:
        with open(temporary, "wb", opener=private) as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            path.replace(keep)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)  # the disk may be full
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until a folder's entries are on the disk.

    Raises:
        OSError: They may not be.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
