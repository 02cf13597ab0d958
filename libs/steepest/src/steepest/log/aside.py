"""Writing a small file so that it is there in full or not at all. It must never know what the file holds."""

from __future__ import annotations

import os
from pathlib import Path


def write_aside(path: Path, data: bytes) -> None:
    """Write under another name in the same folder, sync, and rename into place; safe against loss of power as well.

    One writer at a time for each path.

    Raises:
        OSError: It is not in place, and what stood there before still is.
    """
    aside = path.with_name(f".{path.name}.aside")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in this folder last.

    Raises:
        OSError: They may not.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
