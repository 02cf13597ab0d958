"""How much jobs that share a node slow each other down, estimated from the three jobs of FlowCon's first experiment.

The thesis prints when VAE (from 0 s), MNIST in PyTorch (from 40 s) and MNIST in TensorFlow (from 80 s) end, by default and
with FlowCon at α 5 % and itval 20 s. Both runs do the same work, so what the node gets done while three jobs overlap
follows: FlowCon's overlap is 25.3 s shorter, and only 19.4 s of one job alone make up for it. The model of
:func:`steepest_lab.simulated.shares.slowdown` has one parameter, and this is what it is estimated from. It is one pair
of runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import msgspec

from steepest.max_min import max_min
from steepest_lab.simulated.shares import slowdown

NODE_M = 8_000
"""The node's CPU, in millicores."""

ARRIVALS_S = (0.0, 40.0, 80.0)
DEFAULT_ENDS_S = (394.0, 280.5, 164.7)
FLOWCON_ENDS_S = (386.1, 253.2, 139.4)
"""Thesis §6.1: when the jobs end, in the order of their arrivals."""

FLOORED = (NODE_M / 4, NODE_M / 4, None)
"""FlowCon's limits while the three overlap: the two older ones have converged, and get 1/(n + 1) of the node."""

RUN_TO_RUN_S = 0.072 * 84.7 / math.sqrt(2)
"""Standard deviation of one printed end. The thesis prints one setting (α 10 %, itval 20 s) twice, and the third job's cut
differs by 7.2 points of 84.7 s. Two runs, so this is itself no more than a rough estimate."""

_NORMAL_95 = 1.96
_LARGEST = 10.0
_HALVINGS = 60

Ends = Sequence[float]
Limits = Sequence[float | None]


class Contention(msgspec.Struct, frozen=True):
    """An estimate of the parameter, its standard deviation, and a 95 % interval, which a negative value is cut off."""

    estimate: float
    deviation: float
    low: float
    high: float


def contention(demands_m: Sequence[float]) -> Contention:
    """The estimate.

    Args:
        demands_m: CPU that each job can use, in millicores, in the order of their arrivals.
    """
    ends = (*DEFAULT_ENDS_S, *FLOWCON_ENDS_S)
    best = _solved(ends, demands_m)
    moved = [
        _solved([*ends[:one], ends[one] + RUN_TO_RUN_S, *ends[one + 1 :]], demands_m) - best for one in range(len(ends))
    ]
    deviation = math.hypot(*moved)
    half = _NORMAL_95 * deviation
    return Contention(best, deviation, max(0.0, best - half), best + half)


def lengths_s(demands_m: Sequence[float], contended: float) -> list[float]:
    """How long each of the three jobs takes alone, if the default run ends as printed under a contention."""
    return [_work_s(job, demands_m, contended) for job in range(len(ARRIVALS_S))]


def spells_s(ends: Ends) -> list[float]:
    """For how long one, two and three jobs run, where later ones end earlier."""
    moments = [*ARRIVALS_S, *reversed(ends)]
    lasting = [later - one for one, later in itertools.pairwise(moments)]
    return [lasting[0] + lasting[4], lasting[1] + lasting[3], lasting[2]]


def _work_s(job: int, demands_m: Sequence[float], contended: float) -> float:
    total = 0.0
    for count, spell_s in enumerate(spells_s(DEFAULT_ENDS_S), 1):
        if job < count:
            here = demands_m[:count]
            share = max_min(NODE_M, here)[job] / demands_m[job]
            total += spell_s * share / slowdown(contended, NODE_M, here, [None] * count)
    return round(total, 1)


def _solved(ends: Ends, demands_m: Sequence[float]) -> float:
    """The contention under which both runs do equal work. Without limits, one and two jobs contend alike in both."""

    def surplus(contended: float) -> float:
        default = _done(spells_s(ends[:3]), demands_m, contended, [None] * 3)
        return default - _done(spells_s(ends[3:]), demands_m, contended, FLOORED)

    return _root(surplus)


def _done(spells: Sequence[float], demands_m: Sequence[float], contended: float, three: Limits) -> float:
    """Work in seconds of the whole node."""
    done = 0.0
    for count, spell_s in enumerate(spells, 1):
        here = demands_m[:count]
        limits = three if count == len(ARRIVALS_S) else [None] * count
        done += spell_s * min(1.0, sum(here) / NODE_M) / slowdown(contended, NODE_M, here, limits)
    return done


def _root(of: Callable[[float], float]) -> float:
    """Where a falling function is 0, between −1/2 and the largest contention."""
    low, high = -0.5, _LARGEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle) > 0 else (low, middle)
    return (low + high) / 2
