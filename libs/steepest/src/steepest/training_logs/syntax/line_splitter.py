r"""Splits bytes into lines: chunks of any size in, blocks of complete lines out.

It owns where lines end and their positions in the source. A redraw (``\r`` or ``\b``) ends a line as ``\n`` does, but keeps
the line number. It must never know the content of a line, and never drop a byte uncounted.
"""

import msgspec

MAX_LINE_BYTES = 1 << 20
"""A longer line is cut here: no framework prints such lines, and a hostile one must not consume memory."""

_PIECE_BYTES = 256 << 10
"""Below MAX_LINE_BYTES, so that only the first line of a piece can be too long."""

_BREAKS = (b"\n", b"\r", b"\b")


class LineCursor(msgspec.Struct):
    """Where the next line starts: the state needed to continue reading there.

    Attributes:
        offset: byte offset in the source of the first line that has not been read completely.
        line: 1-based number of that line.
        cutting: whether that offset is inside a line that was too long, whose rest is skipped.
        cut: number of lines cut so far.
    """

    offset: int = 0
    line: int = 1
    cutting: bool = False
    cut: int = 0


class Block(msgspec.Struct, frozen=True):
    r"""Complete lines, each ended by a ``\n``.

    Attributes:
        data: the lines, with ``\n`` for every ``\r`` and ``\b``.
        source: the same bytes, unchanged.
        offset: byte offset of the first one in the source.
        line: 1-based number of the line that it starts in.
    """

    data: bytes
    source: bytes
    offset: int
    line: int


class LineSplitter:
    """Joins chunks into blocks of complete lines.

    Args:
        place: where the first chunk starts; owned by the caller, and updated.
    """

    def __init__(self, place: LineCursor) -> None:
        self._place = place
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> int:
        """Number of buffered bytes of an incomplete line."""
        return self._size

    def feed(self, chunk: bytes) -> list[Block]:
        """Takes the next chunk.

        Returns:
            The lines that it completes. Neither their cuts nor their numbers depend on the chunks.
        """
        blocks: list[Block] = []
        for at in range(0, len(chunk), _PIECE_BYTES):
            self._take(chunk[at : at + _PIECE_BYTES], blocks)
        return blocks

    def _take(self, piece: bytes, blocks: list[Block]) -> None:
        if self._place.cutting:
            piece = self._pass_over(piece)
        if self._size + len(piece) > MAX_LINE_BYTES and self._size + _first_break(piece) > MAX_LINE_BYTES:
            blocks.append(self._cut(piece))
            piece = self._pass_over(piece[MAX_LINE_BYTES - self._size :])
            self._parts, self._size = [], 0
        end = _last_break(piece) + 1
        if end:
            blocks.append(self._complete(b"".join((*self._parts, piece[:end]))))
            self._parts, self._size = [], 0
            piece = piece[end:]
        if piece:
            self._parts.append(piece)
            self._size += len(piece)

    def close(self) -> list[Block]:
        """Returns the last line, if the source ended without a newline."""
        if not self._size:
            return []
        rest = b"".join(self._parts)
        self._parts, self._size = [], 0
        return [self._complete(rest)]

    def _complete(self, source: bytes) -> Block:
        block = _block(source, self._place)
        self._place.offset += len(source)
        self._place.line += source.count(b"\n")
        return block

    def _cut(self, piece: bytes) -> Block:
        """The first MAX_LINE_BYTES of the line that starts in the buffered parts and continues in the piece."""
        block = _block(b"".join((*self._parts, piece[: MAX_LINE_BYTES - self._size])), self._place)
        self._place.offset += MAX_LINE_BYTES
        self._place.cutting = True
        self._place.cut += 1
        return block

    def _pass_over(self, piece: bytes) -> bytes:
        end = _first_break(piece)
        self._place.cutting = end == len(piece)
        end = min(end + 1, len(piece))
        self._place.offset += end
        self._place.line += piece.count(b"\n", 0, end)
        return piece[end:]


def _first_break(piece: bytes) -> int:
    """Where the first line of the piece ends; the piece's length if none does."""
    ends = [at for at in (piece.find(mark) for mark in _BREAKS) if at >= 0]
    return min(ends, default=len(piece))


def _last_break(piece: bytes) -> int:
    return max(piece.rfind(mark) for mark in _BREAKS)


def _block(source: bytes, place: LineCursor) -> Block:
    data = source
    if b"\r" in data:
        data = data.replace(b"\r", b"\n")
    if b"\b" in data:
        data = data.replace(b"\b", b"\n")
    return Block(data=data, source=source, offset=place.offset, line=place.line)
