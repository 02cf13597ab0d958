"""Reads a TOML file into a struct. It owns its bound, and how an error names the file and the field."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

import msgspec

from steepest.errors import InputError

T = TypeVar("T")
MOST_FILE_BYTES = 1 << 20


def read_toml(path: Path, kind: type[T], *, hint: str) -> T:
    """The content of a file of at most 1 MiB.

    Raises:
        InputError: It cannot be read, or describes something else; the message names the field.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MOST_FILE_BYTES + 1)
        if len(text) > MOST_FILE_BYTES:
            raise InputError(f"{path}: is larger than 1 MiB", hint="describe less")
        return msgspec.convert(tomllib.loads(text.decode()), kind)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", hint="name a TOML file") from error
    except (ValueError, RecursionError) as error:  # also those of msgspec, tomllib and the decoder
        raise InputError(f"{path}: {error}", hint=hint) from error
