"""How much a job may still learn, and what a core-second spent on it is worth.

A job *learns* until it has reached 90 % of the loss reduction of its whole run. When that is cannot be seen: it depends on
losses that are still to come. On real runs, a curve fitted to the losses so far says less about it than the shares of the
run at which other trainings got there (``benchmarks/learning.py`` compares the two, and the rules that a fixed share or the
slope give): most curves fall steeply in two phases, and the first one looks like the whole. So what is known is a
distribution of these shares, and the value of running a job follows from it.

The index is that of Gittins for a job with a reward on the way (Gittins, 1979; Smith's rule for its last part): the best
ratio of expected value to work, over all points up to which the job could run. For one known share it is the chord that
:func:`worth` names in its example.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

SHARES = (0.1, 0.16, 0.18, 0.22, 0.28, 0.34, 0.36, 0.38, 0.6, 0.68)
"""Equally likely shares of a run at which 90 % of its loss reduction is reached, ascending: the middles of the tenths over
64 AlgoPerf, 5 Pollux and 901 TaskSet runs, each of the 19 workloads with equal weight; ``benchmarks/learning.py --shares``
prints them."""


def worth(done: float, left: float, learning: float, shares: Sequence[float] = SHARES) -> float:
    """The value of a core-second that a job gets now: the steepest chord of expected value over work.

    Reaching 90 % of its loss reduction is worth ``learning``, finishing the rest ``1 − learning``. With one share q this is
    max(learning / ((q − done)·size), 1 / left) before q, and (1 − learning) / left after it.

    Args:
        done: Share of its steps that are done, in [0, 1).
        left: Core-seconds until its end, above 0.
        learning: λ, in [0, 1]; 0 is the shortest remaining time first.
        shares: As :data:`SHARES`.
    """
    size, first = left / (1 - done), bisect.bisect_right(shares, done)
    best = (1 - learning + learning * (1 - first / len(shares))) / left
    for reached, share in enumerate(shares[first:], 1):
        if share < 1:
            best = max(best, learning * reached / len(shares) / ((share - done) * size))
    return best
