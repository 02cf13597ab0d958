"""``steepest`` and ``python -m steepest``: the command line as a process of its own."""

from __future__ import annotations

import atexit
import gc
import sys

from steepest.standard_streams import FULL, complain, give_up_output, open_streams

NEW_OBJECTS = 50_000
"""Collections are this many new objects apart: modules that load make ten thousands, and hardly any garbage."""


def run() -> None:
    """Run the command line. A collection at exit would look through every module, to free what ends with the process."""
    gc.set_threshold(NEW_OBJECTS)
    atexit.register(gc.freeze)
    open_streams()
    from steepest.cli.main import main  # noqa: PLC0415 - what it imports is what is not to be collected

    try:
        main(prog_name="steepest")
    except OSError as error:
        if error.errno not in FULL:
            raise
        give_up_output()
        complain(f"Error: the output cannot be written: {error.strerror}; make room, or write it to another place")
        sys.exit(2)


if __name__ == "__main__":
    run()
