"""Normal deviates that are functions of (seed, job, step): the same in every process, order and Python.

The generator is SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) at the step's position of the job's own stream: a call
costs two mixings of one integer, and nothing is kept between calls, so reports may be lost, repeated or re-ordered.
"""

from __future__ import annotations

import hashlib
import math

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_UNIT = 2.0**-53


def stream_of(seed: int, name: str) -> int:
    """The beginning of a stream: 64 bits, far from those of other seeds and names."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest(), "little")


def normal(stream: int, step: int) -> float:
    """The deviate of a step, of mean 0 and variance 1 (Box, Muller 1958)."""
    at = stream + 2 * step * _GOLDEN
    first, second = _mix(at), _mix(at + _GOLDEN)
    radius = math.sqrt(-2 * math.log(((first >> 11) + 1) * _UNIT))
    return radius * math.cos(2 * math.pi * (second >> 11) * _UNIT)


def _mix(state: int) -> int:
    state &= _MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)
