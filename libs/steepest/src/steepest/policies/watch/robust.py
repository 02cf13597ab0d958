"""Statistics of a stream in bounded memory: the newest values in order, a whole run in blocks, gaps by their size."""

from __future__ import annotations

import math
from bisect import bisect_left, insort

import msgspec

BLOCKS_MOST = 32
SIZES_MOST = 64
_RATIO = math.log(1.1)


class Newest(msgspec.Struct, gc=False):
    """The newest values, also in order: median and quartiles in constant time.

    Attributes:
        values: In a circle, as they came.
        ordered: The same, the smallest first.
        next: The place in the circle of the next value.
    """

    size: int
    values: list[float] = []
    ordered: list[float] = []
    next: int = 0

    def add(self, value: float) -> None:
        """Take in a finite value; the oldest one goes."""
        if len(self.values) < self.size:
            self.values.append(value)
        else:
            old, self.values[self.next] = self.values[self.next], value
            del self.ordered[bisect_left(self.ordered, old)]
        insort(self.ordered, value)
        self.next = (self.next + 1) % self.size

    @property
    def median(self) -> float:
        """The upper median. There is a value."""
        return self.ordered[len(self.ordered) >> 1]

    @property
    def spread(self) -> float:
        """The distance between the quartiles."""
        count = len(self.ordered)
        return self.ordered[3 * count >> 2] - self.ordered[count >> 2]

    def last(self, count: int) -> list[float]:
        """The last ``count`` values, the newest first; fewer, if there are not so many."""
        held = len(self.values)
        return [self.values[(self.next - 1 - back) % held] for back in range(min(count, held))]

    def moved(self, by: float) -> Newest:
        """The same values, each greater by this."""
        values, ordered = [one + by for one in self.values], [one + by for one in self.ordered]
        return Newest(self.size, values, ordered, self.next)

    def clear(self) -> None:
        """Forget all."""
        self.values, self.ordered, self.next = [], [], 0


class RunBlock(msgspec.Struct, gc=False):
    """Consecutive values of a run.

    Attributes:
        first: The step of the first of them.
    """

    total: float
    count: int
    first: float

    @property
    def mean(self) -> float:
        """Their mean."""
        return self.total / self.count


class RunBlocks(msgspec.Struct, gc=False):
    """A whole run in at most ``BLOCKS_MOST`` blocks of equally many values; neighbours merge once there are more."""

    width: int = 1
    rows: list[RunBlock] = []

    def add(self, step: float, value: float) -> bool:
        """Take in a value; return whether it completed a block."""
        rows = self.rows
        if not rows or rows[-1].count >= self.width:
            if len(rows) == BLOCKS_MOST:
                pairs = zip(rows[::2], rows[1::2], strict=True)
                self.rows = rows = [RunBlock(a.total + b.total, a.count + b.count, a.first) for a, b in pairs]
                self.width *= 2
            rows.append(RunBlock(value, 1, step))
        else:
            rows[-1].total += value
            rows[-1].count += 1
        return rows[-1].count >= self.width


class Gaps(msgspec.Struct, gc=False):
    """Gaps in milliseconds by their size: any quantile to a tenth of it. The smallest sizes merge first.

    Attributes:
        counts: How many gaps, by the logarithm of their size.
        longest: The longest gap.
    """

    counts: dict[int, int] = {}
    count: int = 0
    longest: int = 0

    def add(self, gap_ms: int) -> None:
        """Take in a gap."""
        size = int(math.log(max(gap_ms, 1)) / _RATIO)
        self.counts[size] = self.counts.get(size, 0) + 1
        self.count += 1
        self.longest = max(self.longest, gap_ms)
        if len(self.counts) > SIZES_MOST:
            smallest, second = sorted(self.counts)[:2]
            self.counts[second] += self.counts.pop(smallest)

    def quantile(self, share: float) -> float:
        """A gap that this share of all gaps does not exceed; 0 without gaps."""
        left = (1 - share) * self.count
        for size in sorted(self.counts, reverse=True):
            left -= self.counts[size]
            if left < 0:
                return min(self.longest, 1.1 ** (size + 1))
        return 0.0
