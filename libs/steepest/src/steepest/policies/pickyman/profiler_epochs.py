"""From the pauses in a replica's reading to its epochs.

Every epoch reads the same data set, so after each epoch the count of bytes is higher by the same number: the pauses at the
ends of epochs (evaluation, checkpoint, waiting for a prefetch buffer) have equal distances on the axis of bytes, however
fast the reading was in between. Other pauses are anywhere. The search begins with the longest pauses and takes in shorter
ones, until some have equal distances with few others between them. A halt in the very middle of an
early epoch looks like the end of an epoch of half the bytes.

The paper's abstract says only that traffic from the storage is profiled: this is a reconstruction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from steepest.policies.pickyman.profiler_trace import ReadingPause

LEAST_EPOCHS = 2
"""Distances that must be equal before epochs are found."""

SHORTEST_GAPS = 8
"""An epoch is longer than this many heartbeats: shorter rhythms are those of the measurement itself."""

TOLERANCE = 0.02
"""Of an epoch's bytes: headers, what is sent again, and what is buffered."""

SLACK_BYTES = 1 << 16
"""At least, a chunk of a buffer; at most a tenth of the epoch."""

LEAST_SCORE = 0.75
"""Share of the pauses considered that are at the ends of epochs, times the square of the share of ends that are pauses.

An end without a pause counts twice: a halt in an epoch makes epochs of a third of the bytes look nearly as good.
"""


class Rhythm(msgspec.Struct, frozen=True):
    """The epochs that were found.

    Attributes:
        epoch_bytes: Bytes of an epoch.
        ends: Pauses at the ends of epochs with the number of the epoch, from the first one found on; ascending.
        score: As :data:`LEAST_SCORE`.
        idle_ms: The shortest of these pauses.
    """

    epoch_bytes: int
    ends: tuple[tuple[int, ReadingPause], ...]
    score: float
    idle_ms: int


def rhythm(pauses: Sequence[ReadingPause], gap_ms: float, expected_bytes: int | None = None) -> Rhythm | None:
    """The epochs of a replica, by its pauses in ascending order of their levels; None: none are to be seen.

    Args:
        pauses: All that are known.
        gap_ms: Time between heartbeats.
        expected_bytes: Bytes of an epoch of an earlier incarnation: one such distance is enough.

    Work: O(n³) in the number of pauses, which is bounded.
    """
    for idle_ms in sorted({pause.idle_ms for pause in pauses}, reverse=True):
        long = [pause for pause in pauses if pause.idle_ms >= idle_ms]
        best = None
        for distance in _distances(long, expected_bytes):
            found = _chain(long, distance, 1 if distance == expected_bytes else LEAST_EPOCHS)
            if (
                found is not None
                and _is_slow(found, gap_ms)
                and (best is None or (found.score, len(found.ends)) > (best.score, len(best.ends)))
            ):
                best = found
        if best is not None and best.score >= LEAST_SCORE:
            return best
    return None


def is_end(found: int, epoch_bytes: int) -> int | None:
    """How many epochs lie between two levels that differ by ``found`` bytes; None: no whole number of them."""
    number = round(found / epoch_bytes)
    return number if number >= 1 and abs(found - number * epoch_bytes) <= slack(epoch_bytes) else None


def slack(epoch_bytes: int) -> float:
    """By how many bytes a level may differ from the end of an epoch."""
    return min(max(TOLERANCE * epoch_bytes, SLACK_BYTES), epoch_bytes / 10)


def _distances(pauses: Sequence[ReadingPause], expected_bytes: int | None) -> Iterator[int]:
    """Candidates: from the newest pauses to one or two before."""
    newest = pauses[-6:]
    if expected_bytes is not None:
        yield expected_bytes
    for step in (1, 2):
        for before, after in zip(newest, newest[step:], strict=False):
            if after.level > before.level:
                yield after.level - before.level


def _chain(pauses: Sequence[ReadingPause], distance: int, least: int) -> Rhythm | None:
    """The pauses at whole distances before one of the newest two."""
    best: Rhythm | None = None
    for anchor in pauses[-2:]:
        numbered: dict[int, ReadingPause] = {0: anchor}
        for pause in pauses:
            back = is_end(anchor.level - pause.level, distance) if pause.level < anchor.level else None
            if back is not None and (-back not in numbered or numbered[-back].idle_ms < pause.idle_ms):
                numbered[-back] = pause
        first = _first(numbered)
        ends = [(number - first, pause) for number, pause in sorted(numbered.items()) if number >= first]
        if len(ends) <= least:
            continue
        considered = [pause for pause in pauses if pause.level >= ends[0][1].level]
        score = len(ends) / len(considered) * (len(ends) / (1 - first)) ** 2
        bytes_of = round((anchor.level - ends[0][1].level) / -first)
        if best is None or score > best.score:
            best = Rhythm(bytes_of, tuple(ends), score, min(pause.idle_ms for _, pause in ends))
    return best


def _first(numbered: dict[int, ReadingPause]) -> int:
    """How far back the chain goes: two ends in a row that are no pauses break it."""
    first = 0
    while first - 1 in numbered or first - 2 in numbered:
        first -= 1 if first - 1 in numbered else 2
    return first


def _is_slow(found: Rhythm, gap_ms: float) -> bool:
    (first, began), (last, ended) = found.ends[0], found.ends[-1]
    return ended.ended_ms - began.ended_ms >= SHORTEST_GAPS * gap_ms * (last - first)
