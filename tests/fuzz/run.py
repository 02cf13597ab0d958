"""Feeds the log reader a million mutated lines, and checks the time of each.

    python -m tests.fuzz.run [--lines 1000000] [--seed 1]

Exits with 1 and prints seed and line if one raises, or takes more than 4 ms of processor time for each started KB.
"""

import argparse
import sys
import time

from .training_log_lines import SECONDS_PER_KB, fuzz, slowest


def main() -> int:
    """Feeds the lines, and prints the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    size, began, slow = 0, time.perf_counter(), 0
    for line, seconds in fuzz(options.lines, options.seed):
        size += len(line)
        bound = SECONDS_PER_KB * (len(line) // 1024 + 1)
        if seconds > bound and (best := slowest(line)) > bound:
            slow += 1
            print(f"seed {options.seed}: {best * 1e3:.1f} ms for {len(line)} bytes: {line[:500]!r}")  # noqa: T201
    took = time.perf_counter() - began
    print(f"{options.lines} lines, {size / 1e6:.1f} MB, {took:.0f} s, {slow} too slow, no exception")  # noqa: T201
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
