"""A job's output in its adapter's folder: the last lines, and those that are added.

It owns finding the files, of a job that is over too, and reading them within bounds. It must never know how lines are shown.
What a job prints is not trusted: a file may be a link, be swapped while it is read, or hold one line of a gigabyte.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Self

from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.untrusted import files

READ_MOST = 16 << 20
"""Bytes of a file that are looked through for its last lines."""

LINE_LETTERS = 2_000
"""A longer line is cut."""

LINE_BYTES = 4 * LINE_LETTERS
"""The most of a line without an end that is kept before it is given as it is."""

CHUNK_BYTES = 256 << 10


class Printed:
    """The output of an incarnation, past and future: through rotation and its move to the jobs that are over."""

    def __init__(self, folder: IncarnationFolder) -> None:
        """Begin with the first line that :meth:`added` gives, or behind what :meth:`last` gave.

        Raises:
            UntrustedError: Its output is no regular file, or a link leads to it.
        """
        self._folder = folder
        self._offset = 0
        self._line = b""
        self._descriptor = self._open(folder.output.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def last(self, lines: int) -> tuple[list[str], bool]:
        """The last whole lines up to now, and whether earlier ones are kept that are not among them.

        Raises:
            UntrustedError: As above.
        """
        if self._descriptor < 0:
            return [], False
        self._offset = os.fstat(self._descriptor).st_size
        texts, self._line, more = _tail(self._descriptor, self._offset, lines)
        if more or (rotated := self._open(f"{self._folder.output.name}.1")) < 0:
            return texts, more
        try:
            older, _, more = _tail(rotated, os.fstat(rotated).st_size, lines - len(texts))
        finally:
            os.close(rotated)
        return older + texts, more

    def added(self) -> Iterator[str]:
        """The whole lines that were added since the last call.

        Raises:
            UntrustedError: As above.
        """
        yield from self._read_on()
        if self._is_another():
            yield from self._read_on()  # what was written between the two looks
            yield from self.rest()
            self.close()
            self._offset = 0
            self._descriptor = self._open(self._folder.output.name)
            yield from self._read_on()

    def rest(self) -> Iterator[str]:
        """The line that has no end yet."""
        line, self._line = self._line, b""
        if line:
            yield in_words(line)

    def _open(self, name: str) -> int:
        try:
            return files.open_file(self._folder.path / name, below=self._folder.below)
        except FileNotFoundError:
            return -1

    def _read_on(self) -> Iterator[str]:
        while self._descriptor >= 0 and (chunk := os.pread(self._descriptor, CHUNK_BYTES, self._offset)):
            self._offset += len(chunk)
            *whole, self._line = (self._line + chunk).split(b"\n")
            yield from map(in_words, whole)
            if len(self._line) > LINE_BYTES:
                yield from self.rest()

    def _is_another(self) -> bool:
        """Whether the name stands for another file than the one that is read, or for the first one."""
        try:
            now = self._folder.output.lstat()
        except OSError:
            return False  # removed, or moved with its job: what was opened is still read
        if self._descriptor < 0:
            return True
        mine = os.fstat(self._descriptor)
        return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino)


def last_lines(folder: IncarnationFolder, lines: int) -> tuple[list[str], bool]:
    """The last lines that an incarnation printed, also one that has no end, and whether earlier ones are kept.

    Raises:
        UntrustedError: As :class:`Printed`.
    """
    with Printed(folder) as printed:
        texts, has_more = printed.last(lines)
        texts += printed.rest()
    return texts[-lines:] if lines else [], has_more or len(texts) > lines


def _tail(descriptor: int, end: int, lines: int) -> tuple[list[str], bytes, bool]:
    """The last whole lines before ``end``, what follows the last of them, and whether there are earlier ones."""
    begin, found = end, b""
    while begin > 0 and found.count(b"\n") <= lines and end - begin < READ_MOST:
        size = min(CHUNK_BYTES, begin)
        begin -= size
        found = os.pread(descriptor, size, begin) + found
    *whole, rest = found.split(b"\n")
    if begin > 0 and whole:
        del whole[0]  # its beginning was not read
    kept = whole[-lines:] if lines else []
    return [in_words(line) for line in kept], rest, begin > 0 or len(whole) > lines


def in_words(line: bytes) -> str:
    """A line as a terminal would leave it: what a carriage return overwrote is gone, and what is too long is cut."""
    kept = line.rstrip(b"\r").rpartition(b"\r")[2]
    text = kept[:LINE_BYTES].decode(errors="replace")
    return text if len(text) <= LINE_LETTERS and len(kept) <= LINE_BYTES else f"{text[:LINE_LETTERS]}…"
