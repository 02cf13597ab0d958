"""Pairs of real runs: gangs that hold declared GPUs on two emulated nodes, under ``steepest`` and under other policies.

Each pair runs the same gangs of the demo's NumPy training, submitted at the same times, once under each policy, on this
machine. The nodes declare GPUs that do not exist; gangs, checkpoints, suspensions and resumptions are real. A gang's steps
mostly rest, because its GPUs are scarce here and two cores are not (``benchmarks/frame/resting_gang.py``). One long gang
comes first, and then short ones. A job is *late* that ends more than 5 % and ``GRACE_S`` after its end under a fluid on nine
tenths of the GPUs, with all jobs as they came and what they really worked, as in ``whole_devices``: a start takes seconds of
the machine, and the jobs are that short. *surprised* counts those that end so much after the end that was promised first:
who comes later moves the fair ends. The policies take turns, and each pair has the order of the one before reversed.

Changes are in %, with the 95 % interval of their mean over the pairs (Student's t). ``--out FILE`` appends a JSON line a
pair, and skips what the file holds already, so that the table can be made in pieces.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.frame import resting_gang
from benchmarks.frame.bench import changed, doing, figure, kept, options
from tests.harness.system.running_system import RunningSystem

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.policies.steepest.devices.fair_devices import FairDevices

POLICIES = {
    "steepest": ("--policy", "steepest"),
    "fifo": ("--policy", "spread", "--queueing", "fifo"),
    "srtf": ("--policy", "predicted-srtf"),
}
OURS = "steepest"
NODES = ("--node", "n1=1:gpus=2", "--node", "n2=1:gpus=2")
LATE = 1.05
GPUS = 4.0
GRACE_S = 3.0
WAIT_S = 300.0


class Asked(NamedTuple):
    """A gang of a pair: when it comes, its replicas of a GPU each, and its steps."""

    at_s: float
    replicas: int
    steps: int


def asked(seed: int, count: int, length: float) -> list[Asked]:
    """The gangs of a pair: one that takes all GPUs for long, and then short ones, each some seconds after the one before."""
    chance = random.Random(f"real gangs/{seed}")  # noqa: S311 - a workload
    long = Asked(0.0, 4, round(length * chance.randint(170, 220)))
    sizes = [chance.choice([1, 2]) for _ in range(count - 1)]
    return [long] + [
        Asked(6.0 + 3.0 * number, size, round(length * size * chance.randint(7, 10)))
        for number, size in enumerate(sizes)
    ]


def run(policy: str, gangs: Sequence[Asked], folder: Path) -> Mapping[str, Any]:
    """Run the gangs under a policy to their ends."""
    times = ("--interval", "1s", "--heartbeat", "500ms", "--min-run", "3s")
    system = RunningSystem(folder, *NODES, *times, *POLICIES[policy])
    system.start()
    try:
        began = time.monotonic()
        for number, gang in enumerate(gangs):
            time.sleep(max(0.0, began + gang.at_s - time.monotonic()))
            train = (sys.executable, resting_gang.__file__, "--steps", str(gang.steps))
            request = ("--replicas", str(gang.replicas), "--gpus", "1", "--cpu", "0.1", "--model", "resting")
            system.submit(f"g{number}", *train, options=(*request, "--steps", str(gang.steps)))
        for number in range(len(gangs)):
            if not system.look_for(partial(_is_end, f"g{number}"), 0, WAIT_S):
                raise SystemExit(f"g{number} does not end under {policy}")
        return measured(system.events())
    finally:
        system.end()


def _is_end(job: str, found: Received[c.ClusterEvent]) -> bool | None:
    return True if isinstance(found.event, c.JobEnded) and found.event.job == job else None


def measured(events: Sequence[Received[c.ClusterEvent]]) -> Mapping[str, Any]:
    """The outcome of a run, from its log: completion times in seconds, stops, lost steps, and late jobs."""
    came: dict[str, int] = {}
    ended: dict[str, int] = {}
    due: dict[str, int] = {}
    began: dict[str, int] = {}
    replicas: dict[str, int] = {}
    worked_ms: Counter[str] = Counter()
    stops = lost = 0
    for found in events:
        match found.event:
            case c.JobSubmitted(job=job, spec=spec):
                came[job], replicas[job] = found.at_ms, spec.replicas
            case c.JobPlaced(job=job):
                began[job] = found.at_ms
            case c.JobEnded(job=job):
                ended[job] = found.at_ms
                worked_ms[job] += found.at_ms - began[job]
            case c.JobSuspended(job=job, steps_lost=steps):
                stops, lost = stops + 1, lost + (steps or 0)
                worked_ms[job] += found.at_ms - began[job]
            case c.PromiseRevised(job=job, due_in_ms=due_in_ms) if due_in_ms is not None:
                due.setdefault(job, found.at_ms + due_in_ms)
    fair = FairDevices(GPUS)
    for job in sorted(ended, key=came.__getitem__):
        fair.know(job, replicas[job], worked_ms[job] / 1000 * replicas[job], came[job] / 1000)
    fair.look(fair.now_s)
    ends_ms = {job: round(1000 * (gang.ends_s or math.inf)) for job, gang in fair.gangs.items()}
    over, first = (
        [(ended[job] - came[job] - 1000 * GRACE_S) / (then[job] - came[job]) for job in then if job in ended]
        for then in (ends_ms, due)
    )
    return {
        "mean_s": statistics.fmean(ended[job] - came[job] for job in ended) / 1000,
        "makespan_s": (max(ended.values()) - min(came.values())) / 1000,
        "stops": stops,
        "lost": lost,
        "late": sum(times > LATE for times in over),
        "latest": round(max(over, default=0.0), 2),
        "promised": len(first),
        "surprised": sum(times > LATE for times in first),
        "most_surprised": round(max(first, default=0.0), 2),
    }


def pair(gangs: Sequence[Asked], policies: Sequence[str], number: int) -> Mapping[str, Any]:
    """Run one pair, and print each run."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="steepest-gangs-") as out:
        for policy in policies if number % 2 == 0 else reversed(policies):
            doing(f"pair {number}: {policy}")
            found[policy] = run(policy, gangs, Path(out) / policy)
            figure(f"pair {number} {policy}", **found[policy])
    return found


def main() -> None:
    """Run the pairs that are not known yet, and print the mean changes."""
    policies = ((OURS, "fifo"), tuple(POLICIES), tuple(POLICIES))
    chosen = options(
        __doc__,
        lambda parser: parser.add_argument("--out", type=Path, help="JSON lines of what was measured"),
        pairs=(1, 1, 10),
        jobs=(3, 4, 7),
        length=(0.2, 0.5, 1.0),
        policies=policies,
    )
    of = {"jobs": chosen.jobs, "length": chosen.length, "policies": list(chosen.policies)}
    pairs = [
        kept(
            chosen.out,
            {**of, "pair": number},
            partial(pair, asked(number, chosen.jobs, chosen.length), chosen.policies, number),
        )
        for number in range(chosen.pairs)
    ]
    for other in chosen.policies:
        if other != OURS:
            changes = {
                name: changed([100 * (one[OURS][f"{name}_s"] / one[other][f"{name}_s"] - 1) for one in pairs])
                for name in ("mean", "makespan")
            }
            figure(f"against {other}", **changes)
    figure(
        OURS,
        **{name: sum(one[OURS][name] for one in pairs) for name in ("stops", "lost", "late", "promised", "surprised")},
    )


if __name__ == "__main__":
    main()
