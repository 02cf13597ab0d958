"""Decodes JSON that others write: any malformed or deeply nested input raises the same error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from steepest.errors import UntrustedError
from steepest.untrusted.files import read

_T = TypeVar("_T")
_MESSAGE_MOST = 500
_FAULTS = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)


def decode(content: bytes | str, kind: type[_T]) -> _T:
    """Decode a text as a ``kind``.

    Raises:
        UntrustedError: It is not JSON, nested too deeply, or not a valid ``kind``.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except _FAULTS as error:
        raise UntrustedError(str(error)[:_MESSAGE_MOST]) from error


def decoder(kind: type[_T]) -> Callable[[bytes | str], _T]:
    """A :func:`decode` for one ``kind``, for what comes often."""
    inner = msgspec.json.Decoder(kind).decode

    def outer(content: bytes | str) -> _T:
        try:
            return inner(content)
        except _FAULTS as error:
            raise UntrustedError(str(error)[:_MESSAGE_MOST]) from error

    return outer


def read_json(path: Path, kind: type[_T], *, below: Path, most: int) -> _T:
    """Decode a JSON file of at most ``most`` bytes.

    Raises:
        FileNotFoundError: It is not there.
        UntrustedError: It cannot be read (see :func:`steepest.untrusted.files.open_file`), or is not a valid ``kind``.
    """
    content = read(path, below=below, most=most)
    try:
        return decode(content, kind)
    except UntrustedError as error:
        raise UntrustedError(f"{path}: {error}") from error
