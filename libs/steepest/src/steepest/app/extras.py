"""Libraries that only some commands need, and that an installation may lack. It imports none of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from steepest.errors import InputError


def refuse_without(libraries: Sequence[str], need: str, hint: str) -> None:
    """Check that libraries are installed, before anything is started.

    Args:
        libraries: Names of packages.
        need: The beginning of the message, e.g. ``a reproduction needs``.
        hint: How to install them.

    Raises:
        InputError: One is missing; the message names those that are.
    """
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"{need} {', '.join(missing)}", hint=hint)
