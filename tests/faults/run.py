"""``make faults``: play drawn schedules on all cores until one breaks something; then find a short one that does.

::

    make faults SEEDS=10000 FROM=0                 # fresh seeds
    python -m tests.faults.run --replay FILE       # one schedule again, with all that is broken
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.faults.draw import FAULT_KINDS, POINTS, WISHES, drawn
from tests.faults.schedule import Schedule, parsed
from tests.faults.shrink import causes, shrunk
from tests.faults.world import IDLE, Outcome, played

FOUND = Path("out/faults")
CPU_LIMIT_S = 120
"""A schedule that takes more processor time than this turns in a circle."""


class _CirclesError(Exception):
    pass


def guarded(schedule: Schedule) -> Outcome:
    """Play a schedule; a world that fails, or does not come to an end, is broken too."""

    def give_up(*_: object) -> None:
        raise _CirclesError(f"no end after {CPU_LIMIT_S} s of processor time")

    signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_LIMIT_S)
    try:
        return played(schedule)
    except Exception as error:  # noqa: BLE001 - an error of the world is a finding too
        return Outcome((f"the world failed: {error!r}",), {}, 0, 0, 0.0, "")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _seed(seed: int) -> tuple[int, Outcome]:
    if gc.isenabled():  # the first one in this process: the modules need not be looked at after every seed
        gc.disable()
        gc.freeze()
    try:
        return seed, guarded(drawn(seed))
    finally:
        gc.collect()


def outcomes(seeds: Sequence[int], processes: int) -> Iterator[tuple[int, Outcome]]:
    """Each seed's outcome, as they come."""
    if processes == 1:
        yield from map(_seed, seeds)
        return
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=500) as pool:
        yield from pool.imap_unordered(_seed, seeds)


def hunt(
    seeds: Sequence[int], processes: int, say: Callable[[str], None]
) -> tuple[tuple[int, Outcome] | None, Mapping[tuple[str, str], int]]:
    """Play until one is broken: that one, and what was struck so far."""
    struck: Counter[tuple[str, str]] = Counter()
    done = faults = records = 0
    began = said = time.monotonic()
    for seed, outcome in outcomes(seeds, processes):
        done, faults, records = done + 1, faults + outcome.faults, records + outcome.records
        struck.update(outcome.struck)
        now = time.monotonic()
        if outcome.broken or now - said >= 1 or done == len(seeds):
            said = now
            pace = done / max(now - began, 1e-9)
            say(f"{done} of {len(seeds)} seeds, {pace:.1f} a second, {faults} faults, {records} records")
        if outcome.broken:
            return (seed, outcome), struck
    return None, struck


def shortest(schedule: Schedule, outcome: Outcome) -> Schedule:
    """A short schedule that breaks one of the same things."""
    wanted = causes(outcome.broken)
    return shrunk(schedule, lambda one: any(cause in wanted for cause in causes(guarded(one).broken)))


def table(struck: Mapping[tuple[str, str], int]) -> str:
    """How often each kind of fault has struck while each step was under way, as text."""
    kinds = sorted({*(kind for kind, _ in struck), *(kind.split("/")[-1] for kind in FAULT_KINDS)} - WISHES)
    steps = [*POINTS, IDLE]
    width = max(map(len, kinds))
    lines = [" " * width + "".join(f"{_short(step):>11}" for step in steps)]
    lines += [f"{kind:<{width}}" + "".join(f"{struck.get((kind, step), 0):>11}" for step in steps) for kind in kinds]
    never = {kind: [step for step in POINTS if not struck.get((kind, step))] for kind in kinds}
    count = sum(map(len, never.values()))
    lines.append(f"{count} of {len(kinds) * len(POINTS)} pairs of a fault and a step were never struck")
    lines += [f"{kind:<{width}}  never in {', '.join(steps)}" for kind, steps in never.items() if steps]
    return "\n".join(lines)


def _short(step: str) -> str:
    kind, _, name = step.partition(".")
    return f"{kind[:3]}.{name[:6]}" if name else "idle"


def _replay(path: Path) -> int:
    outcome = guarded(parsed(path.read_text()))
    _say(f"{outcome.records} records, {outcome.faults} faults, {outcome.took_s:.1f} s, digest {outcome.digest}")
    for what in outcome.broken or ("nothing is broken",):
        _say(what)
    return bool(outcome.broken)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play seeds, or one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-shrink", action="store_true", help="only say which seed breaks what")
    parser.add_argument("--replay", type=Path, help="play this schedule, and nothing else")
    given = parser.parse_args(arguments)
    if given.replay:
        return _replay(given.replay)
    seeds = range(given.first, given.first + given.seeds)
    found, struck = hunt(seeds, given.processes, _say)
    _say(table(struck))
    if found is None:
        _say(f"{given.seeds} seeds from {given.first} on: nothing is broken")
        return 0
    seed, outcome = found
    for what in outcome.broken:
        _say(f"seed {seed}: {what[:1000]}")
    if given.no_shrink:
        return 1
    short = shortest(drawn(seed), outcome)
    FOUND.mkdir(parents=True, exist_ok=True)
    path = FOUND / f"seed-{seed}.txt"
    remarks = "".join(f"# {what[:300]}\n" for what in guarded(short).broken)
    path.write_text(f"# found by seed {seed}\n{remarks}{short}")
    _say(f"\n{path.read_text()}\nagain: python -m tests.faults.run --replay {path}")
    return 1


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the command's output


if __name__ == "__main__":
    sys.exit(main())
