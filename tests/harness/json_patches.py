"""JSON patches (RFC 6902) of tests and additions, as an API server applies them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any


class PatchTestError(Exception):
    """A test of a patch has failed: nothing is changed."""


def patched(found: dict[str, Any], operations: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The object with the patch applied.

    Raises:
        PatchTestError: A test of the patch fails.
    """
    made = copy.deepcopy(found)
    for operation in operations:
        *way, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:])
        place: Any = made
        for part in way:
            place = place[int(part)] if isinstance(place, list) else place[part]
        if operation["op"] == "test":
            if place[last] != operation["value"]:
                raise PatchTestError(operation["path"])
        else:
            assert operation["op"] == "add"
            place[last] = operation["value"]
    return made
