"""From a counter of bytes that a replica has read to the pauses in its reading.

It owns what a counter may do besides rise: it may start again, wrap, jump or be absent. A pause is a time of at least one
heartbeat in which nothing is read; its level is how much was read up to it. It must never know what a pause means.
"""

from __future__ import annotations

import msgspec

PAUSES_KEPT = 32
"""Of each replica; the shortest one is dropped for another."""

WRAPS = (2**32, 2**63, 2**64)
"""Where counters of network devices begin again at 0."""

FASTEST_BYTES_MS = 10**9
"""No replica reads a terabyte a second: a counter that rises faster has jumped."""

IDLE_SHARE = 0.01
"""Of the rate of reading: slower than that, nothing is read but what keeps connections open."""

WRAPS_WITHIN = 4
"""A counter that has wrapped has risen by at most this multiple of what its replica reads; otherwise it was lost."""

LEAST_GAPS = 0.75
"""Of the time between heartbeats: the shortest pause that counts."""

_SMOOTHING = 0.25
_BACK_MS = 60_000


class ReadingPause(msgspec.Struct):
    """A pause in the reading.

    Attributes:
        level: Bytes read up to it.
        began_ms: When the reading stopped, between two heartbeats by its rate.
        ended_ms: When it went on; of a pause that lasts, the newest heartbeat.
        idle_ms: How much of it was surely idle: from the first heartbeat in it to the last.
    """

    level: int
    began_ms: float
    ended_ms: float
    idle_ms: int = 0


class Trace(msgspec.Struct):
    """What a replica has read so far.

    Attributes:
        began_ms: The first heartbeat with a count.
        at_ms: The newest heartbeat that was measured.
        counter: The counter there.
        read: Bytes read so far, over all restarts of the counter.
        rate: Bytes a millisecond while it reads, smoothed; 0 before it has read.
        gap_ms: Time between heartbeats, smoothed.
        pauses: Those that are over, by level.
        open: The pause that lasts; None: it reads.
    """

    began_ms: int
    at_ms: int
    counter: int
    read: int = 0
    rate: float = 0.0
    gap_ms: float = 0.0
    pauses: list[ReadingPause] = []
    open: ReadingPause | None = None

    def reached_ms(self, level: int, before: tuple[int, int]) -> float:
        """When the newest heartbeat's count passed a level; ``before``: time and count of the heartbeat before."""
        at_ms, read = before
        share = (level - read) / max(self.read - read, 1)
        return at_ms + min(max(share, 0.0), 1.0) * (self.at_ms - at_ms)


def begin(at_ms: int, counter: int) -> Trace:
    """A trace that begins with this heartbeat; what was read before it counts as read."""
    return Trace(began_ms=at_ms, at_ms=at_ms, counter=counter, read=counter)


def observe(trace: Trace, at_ms: int, counter: int | None) -> ReadingPause | None:
    """Take a heartbeat; return the pause that is over with it. Without a count, nothing is known to have happened."""
    if counter is None:
        return None
    took_ms = at_ms - trace.at_ms
    if took_ms <= 0:
        if took_ms < -_BACK_MS:  # the clock was set back: what was timed by it before says nothing about now
            gap_ms = max(round(trace.gap_ms), 1)
            trace.read += _risen(trace, counter, gap_ms) or 0
            trace.began_ms += took_ms - gap_ms
            trace.at_ms, trace.counter, trace.open = at_ms, counter, None
            trace.pauses.clear()
        return None
    more = _risen(trace, counter, took_ms)
    if more is None:
        trace.counter, trace.at_ms, trace.open = counter, at_ms, None
        trace.pauses.clear()  # the levels before and after an unknown jump have nothing to do with each other
        return None
    if not more and took_ms < trace.gap_ms / 2:
        return None  # a heartbeat about something else, with the counts of the one before
    over = _fold(trace, at_ms, took_ms, more)
    trace.at_ms, trace.counter = at_ms, counter
    trace.read += more
    trace.gap_ms += (took_ms - trace.gap_ms) * (_SMOOTHING if trace.gap_ms else 1.0)
    if more > IDLE_SHARE * trace.rate * took_ms:
        trace.rate += (more / took_ms - trace.rate) * (_SMOOTHING if trace.rate else 1.0)
    return over


def close(trace: Trace) -> ReadingPause | None:
    """The replica has ended: the pause that lasts is over."""
    over, trace.open = trace.open, None
    return over if over is not None and _keep(trace, over) else None


def _risen(trace: Trace, after: int, took_ms: int) -> int | None:
    """By how much a counter has risen; None: it has jumped."""
    before, most = trace.counter, FASTEST_BYTES_MS * took_ms
    if after >= before:
        return after - before if after - before <= most else None
    likely = WRAPS_WITHIN * trace.rate * took_ms if trace.rate else most
    for wrap in WRAPS:
        if before < wrap and after + wrap - before <= min(most, likely, wrap // 4):
            return after + wrap - before
    return after if after <= most else None  # it was lost, and counts from 0 again


def _fold(trace: Trace, at_ms: int, took_ms: int, more: int) -> ReadingPause | None:
    is_idle = trace.rate > 0 and more <= IDLE_SHARE * trace.rate * took_ms
    if is_idle:
        if trace.open is None:
            trace.open = ReadingPause(level=trace.read, began_ms=float(trace.at_ms), ended_ms=float(at_ms))
        trace.open.ended_ms = float(at_ms)
        trace.open.idle_ms += took_ms
        return None
    over, trace.open = trace.open, None
    if over is None:
        return None
    # It went on as long before this heartbeat as reading what it has read since takes.
    over.ended_ms = max(float(trace.at_ms), at_ms - more / trace.rate)
    return over if _keep(trace, over) else None


def _keep(trace: Trace, over: ReadingPause) -> bool:
    """Keep a pause; not one that is shorter than a heartbeat: two heartbeats may report one measurement."""
    if over.idle_ms < LEAST_GAPS * trace.gap_ms:
        return False
    trace.pauses.append(over)
    if len(trace.pauses) > PAUSES_KEPT:
        # The oldest half goes by length alone; the newest pauses stay, so that a change is noticed.
        older = trace.pauses[: PAUSES_KEPT // 2]
        trace.pauses.remove(min(older, key=lambda pause: (pause.idle_ms, pause.level)))
    return True
