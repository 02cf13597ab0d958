"""Standard output and standard error where they are closed, full, or in an encoding that lacks a letter.

It owns that a process has all three streams, and that a system goes on while its output is full. It must never know what is
printed.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TextIO, cast

FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
"""What a write to a full or broken disk says."""


def open_streams() -> None:
    """Open what the caller closed (``>&-``), so that no other file gets its number; print ``?`` for unknown letters."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - 0, 1 and 2 are the standard streams
        os.set_inheritable(number, True)  # noqa: FBT003 - its own form
    os.close(number)
    sys.stdout = cast("TextIO | None", sys.stdout) or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = cast("TextIO | None", sys.stderr) or open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", "") == "strict":
            cast("Any", stream).reconfigure(errors="replace")


def give_up_output() -> None:
    """Print nothing more: Python would complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class LossyStream:
    """A stream whose writes never fail for want of room: what is not taken is lost."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, if there is room."""
        with _room_or_not():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, if there is room."""
        with _room_or_not():
            self._stream.flush()


@contextmanager
def _room_or_not() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise


@contextmanager
def printing_on() -> Iterator[None]:
    """Print to standard output what it takes, and lose the rest: a system outlives a full disk."""
    with redirect_stdout(cast("TextIO", LossyStream(sys.stdout))):
        yield


def complain(line: str) -> None:
    """Print a line to standard error, if it takes one."""
    with suppress(OSError):
        print(line, file=sys.stderr)  # noqa: T201
