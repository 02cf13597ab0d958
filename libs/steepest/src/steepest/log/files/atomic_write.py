"""Writing a small file so that it is there in full or not at all. It must never know what the file holds."""

from __future__ import annotations

import os
from pathlib import Path


def private(path: str, flags: int) -> int:
    """An opener for files that only this user may read, whatever the umask."""
    return os.open(path, flags, 0o600)


def write_atomically(path: Path, data: bytes, *, keep: Path | None = None) -> None:
    """Write under another name in the same folder, sync, and rename into place; safe against loss of power as well.

    One writer at a time for each path. Only this user may read the file.

    Args:
        path: Where the file will be.
        data: All of it.
        keep: Where to move what stood there before, just before the new one takes its place.

    Raises:
        OSError: It may not be in place; what stood there before still is, or is where it is kept.
    """
    aside = path.with_name(f".{path.name}.aside")
    try:
        with open(aside, "wb", opener=private) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            path.replace(keep)
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)  # the disk may be full
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder.

    Raises:
        OSError: It may not.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
