"""Convert a trace's names to names that are valid on the log: deterministic, and without collisions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from steepest.events.common import is_name

_OTHER = re.compile(r"[^a-z0-9._-]+")
_LONGEST = 63
_DIGEST_LETTERS = 8


def fit_names(names: Sequence[str]) -> list[str]:
    """Convert distinct names to names on the log.

    A valid name stays. Any other is lowercased, its invalid characters become dashes, and it gets the beginning of its
    digest (BLAKE2b) as a suffix, so that ``A b`` and ``a-b`` stay distinct.
    """
    taken = {name for name in names if is_name(name)}
    fitted = []
    for name in names:
        found = name
        attempt = 0
        while not is_name(found) or (found != name and found in taken):
            found = _with_digest(name, attempt)
            attempt += 1
        taken.add(found)
        fitted.append(found)
    return fitted


def _with_digest(name: str, attempt: int) -> str:
    salt = attempt.to_bytes(8, "little")
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), salt=salt).hexdigest()[:_DIGEST_LETTERS]
    stem = _OTHER.sub("-", name.lower())[: _LONGEST - _DIGEST_LETTERS - 1].strip("._-")
    return f"{stem or 'job'}-{digest}"
