"""Finds the lines of a block that contain a needle (a substring of interest).

It owns the reader's position in a block. Lines without a needle cost only a memory scan. It must never know what a needle
means.
"""

from steepest.training_logs.syntax.line_splitter import Block


class Scanner:
    """A position in a block.

    Attributes:
        data: the block's lines, each ended by a newline.
        at: where the next line starts.
        offset: the block's offset in the source.
        whole_lines: whether the block has no redraws, so that each of its lines is a line of the source.
    """

    __slots__ = ("_block", "_counted", "_hits", "_line", "_needles", "_size", "at", "data", "offset", "whole_lines")

    def __init__(self, block: Block) -> None:
        self.data = block.data
        self.at = 0
        self.offset = block.offset
        self.whole_lines = block.data is block.source
        self._block = block
        self._size = len(block.data)
        self._line = block.line
        self._counted = 0
        self._needles: tuple[bytes, ...] = ()
        self._hits: list[int] = []

    def next_line(self, needles: tuple[bytes, ...]) -> tuple[bytes, int, int] | None:
        """Advances past the next line that contains a needle.

        Returns:
            The line, its number, and the source's offset after it; None at the block's end.
        """
        data, at, size = self.data, self.at, self._size
        if needles is not self._needles:
            self._needles = needles
            self._hits = [-1] * len(needles)
        hit = self._next_hit(at)
        if hit >= size:
            self.at = size
            return None
        start = data.rfind(b"\n", at, hit) + 1 or at
        end = data.find(b"\n", hit)
        end = size if end < 0 else end
        return data[start:end], self.line_at(start), self.pass_to(end + 1)

    def line_at(self, start: int) -> int:
        """The number of the line that starts there; positions must increase from call to call."""
        self._line += self._block.source.count(b"\n", self._counted, start)
        self._counted = start
        return self._line

    def pass_to(self, at: int) -> int:
        """Continues at ``at``; returns its offset in the source."""
        self.at = min(at, self._size)
        return self.offset + self.at

    def _next_hit(self, at: int) -> int:
        hits, find, best = self._hits, self.data.find, self._size
        for number, needle in enumerate(self._needles):
            hit = hits[number]
            if hit < at:
                hit = find(needle, at)
                hits[number] = hit = self._size if hit < 0 else hit
            best = min(best, hit)
        return best
