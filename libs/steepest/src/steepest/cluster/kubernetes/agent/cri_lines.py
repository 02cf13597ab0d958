"""Reads the format in which container runtimes keep a container's log: ``TIME STREAM TAGS TEXT``, a line each.

It owns the format (the kubelet's CRI logging) and gives what the API server's log has: the text, and the time of each line's
first piece. A runtime splits a long line: all its pieces but the last one have the tag ``P``, and the kubelet joins them as
they come, also where pieces of the other stream are between them. Text is handed on as it comes, however long a line is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

HEAD_BYTES_MOST = 128
"""The longest head of a line: a time, ``stdout`` or ``stderr``, and the tags."""

_HEAD = re.compile(
    rb"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:\d\d)"
    rb" (?:stdout|stderr) (?P<tag>[PF])(?::[^ \n]*)? "
)
_DIGITS = 9


class CriLines:
    """The text of a log, however it is cut into chunks.

    Attributes:
        malformed: Lines without such a head, which were left out.
    """

    def __init__(self) -> None:
        self.malformed = 0
        self._head = b""  # of a line whose text has not begun
        self._is_partial: bool | None = None  # of a line whose text has begun; None: none has
        self._is_skipped = False  # up to the end of a line without a head
        self._at = ""  # of the first piece of a line that has not ended

    def of(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        """The pieces of text in a chunk, each with the time of its line; one ends with a line feed where its line does."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield from self._piece(line, is_end=True)
        if rest:
            yield from self._piece(rest, is_end=False)

    def _piece(self, piece: bytes, *, is_end: bool) -> Iterator[tuple[str, bytes]]:
        if self._is_skipped:
            self._is_skipped = not is_end
            return
        if self._is_partial is None:
            piece = self._head + piece
            found = _HEAD.match(piece[:HEAD_BYTES_MOST])
            if found is None:
                is_wrong = is_end or len(piece) >= HEAD_BYTES_MOST
                self.malformed += is_wrong
                self._is_skipped = is_wrong and not is_end
                self._head = b"" if is_wrong else piece
                return
            self._head = b""
            self._is_partial = found["tag"] == b"P"
            self._at = self._at or _time(found)
            piece = piece[found.end() :]
        text = piece + b"\n" if is_end and not self._is_partial else piece
        if text:
            yield self._at, text
        if is_end:
            if not self._is_partial:
                self._at = ""
            self._is_partial = None


def _time(head: re.Match[bytes]) -> str:
    """A line's time as the API server writes it: with nine digits of the second, so that texts compare as times do."""
    fraction = (head["fraction"] or b"").ljust(_DIGITS, b"0")
    zone = b"Z" if head["zone"] == b"+00:00" else head["zone"]
    return b"".join((head["second"], b".", fraction, zone)).decode()
