"""What a reproduction needs beside the library itself. It imports none of it."""

from __future__ import annotations

import importlib.util

from steepest.errors import InputError

NEEDED = ("jinja2", "matplotlib", "scipy")


def refuse_without_libraries() -> None:
    """Say before anything runs that its report could not be made.

    Raises:
        InputError: A library is missing.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"a reproduction needs {', '.join(missing)}",
            hint="In a checkout run `make dev`; elsewhere `pip install 'steepest[simulate]'`.",
        )
