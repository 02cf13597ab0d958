"""``make faults``: play drawn schedules on all cores until one breaks something; then find a short one that does.

::

    make faults SEEDS=10000 FROM=0                 # fresh seeds
    make faults SEEDS=10000 LEAST=100              # and each fault must have struck in each step a hundred times
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
from typing import TypeVar

import msgspec
from tests.faults.draw import POINTS, WISHES, drawn
from tests.faults.fault_kinds import FAULT_KINDS
from tests.faults.judge import MEASURED, NO_TWICE, ONE_PLACE, REPLAY
from tests.faults.schedule import Schedule, parsed
from tests.faults.shrink import causes, shrunk
from tests.faults.world import IDLE, Outcome, played

T = TypeVar("T")
FOUND = Path("out/faults")
CPU_LIMIT_S = 120
"""A schedule that takes more processor time than this turns in a circle."""


SEEDS_A_PROCESS = 100
"""Each leaves 4 MB. To collect them after every seed would cost 3 % of the time."""


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


def outcome_of(seed: int) -> tuple[int, Outcome]:
    """A seed, and what came of it."""
    gc.disable()  # what a world leaves goes with its process
    return seed, guarded(drawn(seed))


def on_cores(play: Callable[[int], T], seeds: Sequence[int], processes: int) -> Iterator[T]:
    """What each seed gives, as they come."""
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=SEEDS_A_PROCESS) as pool:
        yield from pool.imap_unordered(play, seeds)


class Tally(msgspec.Struct):
    """What was played so far.

    Attributes:
        struck: How often each kind of fault struck while each step was under way.
        judged: Of how many seeds was judged what is not judged of every world.
    """

    seeds: int = 0
    faults: int = 0
    records: int = 0
    struck: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    judged: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        """One more seed."""
        self.seeds += 1
        self.faults += outcome.faults
        self.records += outcome.records
        self.struck.update(outcome.struck)
        self.judged.update(outcome.judged)


def hunt(seeds: Sequence[int], processes: int, say: Callable[[str], None]) -> tuple[tuple[int, Outcome] | None, Tally]:
    """Play until one is broken: that one, and what was played so far."""
    tally = Tally()
    began = said = time.monotonic()
    for seed, outcome in on_cores(outcome_of, seeds, processes):
        tally.add(outcome)
        now = time.monotonic()
        if outcome.broken or now - said >= 1 or tally.seeds == len(seeds):
            said = now
            pace = tally.seeds / max(now - began, 1e-9)
            say(
                f"{tally.seeds} of {len(seeds)} seeds, {pace:.1f} a second, "
                f"{tally.faults} faults, {tally.records} records"
            )
        if outcome.broken:
            return (seed, outcome), tally
    return None, tally


def shortest(schedule: Schedule, outcome: Outcome) -> Schedule:
    """A short schedule that breaks one of the same things."""
    wanted = causes(outcome.broken)
    return shrunk(schedule, lambda one: any(cause in wanted for cause in causes(guarded(one).broken)))


def kinds_of(struck: Mapping[tuple[str, str], int]) -> Sequence[str]:
    """The kinds of faults, also those that have not struck."""
    return sorted({*(kind for kind, _ in struck), *(kind.split("/")[-1] for kind in FAULT_KINDS)} - WISHES)


def seldom(struck: Mapping[tuple[str, str], int], least: int | None = None) -> Sequence[tuple[int, str, str]]:
    """The pairs of a fault and a step that were struck fewer times, and how often; the rarest first. None: all pairs."""
    pairs = [(struck.get((kind, step), 0), kind, step) for kind in kinds_of(struck) for step in POINTS]
    return sorted(pair for pair in pairs if least is None or pair[0] < least)


def table(struck: Mapping[tuple[str, str], int], least: int = 0) -> str:
    """How often each kind of fault has struck while each step was under way, and which pairs below ``least``, as text."""
    kinds = kinds_of(struck)
    steps = [*POINTS, IDLE]
    width = max(map(len, kinds))
    lines = [" " * width + "".join(f"{_short(step):>11}" for step in steps)]
    lines += [f"{kind:<{width}}" + "".join(f"{struck.get((kind, step), 0):>11}" for step in steps) for kind in kinds]
    count, kind, step = seldom(struck)[0]
    pairs = len(kinds) * len(POINTS)
    lines.append(f"of {pairs} pairs of a fault and a step, {kind} in {step} was struck least: {count} times")
    below = seldom(struck, max(least, 1))
    lines.append(f"{len(below)} pairs were struck fewer than {max(least, 1)} times")
    rare = {kind: [f"{step} {count}" for count, one, step in below if one == kind] for kind in kinds}
    lines += [f"{kind:<{width}}  {', '.join(found)}" for kind, found in rare.items() if found]
    return "\n".join(lines)


def _judged(tally: Tally) -> str:
    found = (f"{name} in {tally.judged[name]}" for name in (REPLAY, MEASURED, ONE_PLACE, NO_TWICE))
    return f"judged of {tally.seeds} seeds: all else in each, {', '.join(found)}"


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
    parser.add_argument("--these", default="", help="play these seeds, by commas, and no others")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-shrink", action="store_true", help="only say which seed breaks what")
    parser.add_argument("--least", type=int, default=0, help="how often each fault must strike in each step")
    parser.add_argument("--replay", type=Path, help="play this schedule, and nothing else")
    given = parser.parse_args(arguments)
    if given.replay:
        return _replay(given.replay)
    these = [int(seed) for seed in given.these.split(",") if seed]
    seeds = these or range(given.first, given.first + given.seeds)
    found, tally = hunt(seeds, given.processes, _say)
    _say(table(tally.struck, given.least))
    _say(_judged(tally))
    if found is None:
        _say(f"{len(seeds)} seeds from {seeds[0]} on: nothing is broken")
        return bool(seldom(tally.struck, given.least))
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
