"""``steepest`` and ``python -m steepest``: the command line as a process of its own."""

from __future__ import annotations

import atexit
import gc

NEW_OBJECTS = 50_000
"""Collections are this many new objects apart: modules that load make ten thousands, and hardly any garbage."""


def run() -> None:
    """Run the command line. A collection at exit would look through every module, to free what ends with the process."""
    gc.set_threshold(NEW_OBJECTS)
    atexit.register(gc.freeze)
    from steepest.cli.main import main  # noqa: PLC0415 - what it imports is what is not to be collected

    main(prog_name="steepest")


if __name__ == "__main__":
    run()
