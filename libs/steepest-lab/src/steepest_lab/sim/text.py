"""Read a simulation's input file as text: plain or gzip, of bounded size, in UTF-8.

It handles bytes, compression and encoding. It must never know what the text means.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from steepest.errors import InputError

LARGEST_BYTES = 512 * 2**20
"""After decompression. A million jobs take some 100 MiB; a larger file is not a trace, or is a decompression bomb."""

_GZIP = b"\x1f\x8b"
_RESTORE = "Get the file again from its source."


def read_text(path: Path) -> str:
    """Return a file's text, decompressed if the content (not the name) is gzip.

    Raises:
        InputError: It cannot be read, is truncated, too large, empty, or not UTF-8 text.
    """
    try:
        with path.open("rb") as file:
            compressed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            if compressed:
                with gzip.GzipFile(fileobj=file) as inside:
                    data = inside.read(LARGEST_BYTES + 1)
            else:
                data = file.read(LARGEST_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: is a damaged gzip file: {error}", hint=_RESTORE) from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}", hint="Name a file.") from error
    if len(data) > LARGEST_BYTES:
        raise InputError(f"{path}: holds more than {LARGEST_BYTES >> 20} MiB", hint="Cut it into parts.")
    return _decoded(data, path)


def _decoded(data: bytes, path: Path) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: is not UTF-8 text", hint=_RESTORE) from error
    if (zero := text.find("\0")) >= 0:
        raise InputError(f"{path}, line {text.count(chr(10), 0, zero) + 1}: is binary, not text", hint=_RESTORE)
    if not text.strip():
        raise InputError(f"{path}: is empty", hint=_RESTORE)
    return text
