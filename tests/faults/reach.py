"""Which mutants would act differently with which seeds; run in a copy of the library that has their probes.

A line a seed: the seed, then the mutants' names, or ``BROKEN`` and what it breaks in the unharmed code.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.faults import reached
from tests.faults.run import on_cores, outcome_of

BROKEN = "BROKEN"


def _seed(seed: int) -> tuple[int, Sequence[str], Sequence[str]]:
    reached.REACHED.clear()
    _, outcome = outcome_of(seed)
    return seed, [*reached.REACHED], outcome.broken


def main(arguments: Sequence[str] | None = None) -> int:
    """Play seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, required=True)
    parser.add_argument("--from", type=int, required=True, dest="first")
    parser.add_argument("--processes", type=int, required=True)
    given = parser.parse_args(arguments)
    for seed, names, broken in on_cores(_seed, range(given.first, given.first + given.seeds), given.processes):
        print(seed, *([BROKEN, broken[0][:300]] if broken else names), flush=True)  # noqa: T201 - the command's output
    return 0


if __name__ == "__main__":
    sys.exit(main())
