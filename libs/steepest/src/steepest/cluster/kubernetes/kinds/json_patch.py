"""The operations of JSON patches (RFC 6902), for objects of which no part needs to be there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steepest.cluster.kubernetes.kinds.description import Path
from steepest.cluster.kubernetes.kinds.users_object import at
from steepest.errors import InputError

Operation = dict[str, Any]


def add(path: Path, value: object) -> Operation:
    """Put a value where everything above it is there."""
    pointer = "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in path)
    return {"op": "add", "path": pointer, "value": value}


def put(part: object, where: Path, path: Path, entries: Mapping[str, object]) -> list[Operation]:
    """Put entries into a map.

    Args:
        part: The part of the object that was found at ``where``.
        where: Its path in the object.
        path: The path of the map in that part.
        entries: What is put there.

    Raises:
        InputError: There is something else in place of the map.
    """
    for length in range(1, len(path) + 1):
        if at(part, path[:length]) is None:
            return [add((*where, *path[:length]), nested(path[length:], dict(entries)))]
    if not isinstance(at(part, path), Mapping):
        raise InputError(f"{'.'.join((*where, *path))} is no map", hint="correct the field")
    return [add((*where, *path, name), value) for name, value in entries.items()]


def nested(path: Path, value: object) -> Any:
    """A value below the names of a path, as a merge patch (RFC 7386) has it."""
    for name in reversed(path):
        value = {name: value}
    return value
