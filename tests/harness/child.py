"""A process that a test starts, and that never outlives it.

It owns the end. It must never know what runs.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence

from tests.harness.waiting import PATIENCE_S


@contextlib.contextmanager
def child(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a process with pipes for what it prints; it must have ended by itself a while after the block.

    Raises:
        subprocess.TimeoutExpired: It has not, and was killed.
    """
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
            process.wait(PATIENCE_S)
        finally:
            process.kill()
