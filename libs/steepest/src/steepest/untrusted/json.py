"""Decodes JSON that others write: however it is broken or nested, one error comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from steepest.errors import UntrustedError
from steepest.untrusted.files import read

_T = TypeVar("_T")
_MESSAGE_MOST = 500


def decode(content: bytes, kind: type[_T]) -> _T:
    """What the bytes say.

    Raises:
        UntrustedError: They are no JSON, nested too deeply, or no ``kind``.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise UntrustedError(str(error)[:_MESSAGE_MOST]) from error


def read_json(path: Path, kind: type[_T], *, below: Path, most: int) -> _T:
    """What a JSON file of at most ``most`` bytes says.

    Raises:
        FileNotFoundError: It is not there.
        UntrustedError: It is no such file (see :func:`steepest.untrusted.files.open_file`), or no ``kind``.
    """
    content = read(path, below=below, most=most)
    try:
        return decode(content, kind)
    except UntrustedError as error:
        raise UntrustedError(f"{path}: {error}") from error
