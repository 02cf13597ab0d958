"""The processes of this machine by their command lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import psutil


def with_command_lines(found: Iterable[psutil.Process] | None = None) -> Iterator[tuple[psutil.Process, list[str]]]:
    """Every process, or each of these, with its command line; one that ended, a zombie and a hidden one have none."""
    for process in psutil.process_iter() if found is None else found:
        try:
            yield process, process.cmdline()
        except psutil.Error:
            continue
