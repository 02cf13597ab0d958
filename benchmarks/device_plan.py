"""What a decision about gangs on devices costs, as the jobs of the pool grow in number.

A decision is promises, order and division (:mod:`steepest.policies.steepest.devices.gang_order`), with the forecast of the
fair ends beside it, which is made only after an arrival, an end or another size. Where a running gang would be stopped, the
order is made once more, with those kept that could not pause for long (*stops*). *behind*: the pool is 25 minutes behind its
promises.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable

from benchmarks.frame.bench import cpu_s, each, figure, options

from steepest.policies.steepest.devices.fair_devices import FairDevices
from steepest.policies.steepest.devices.gang_order import WholeGang, divide, in_turn, promise

SLOT_S, LATENESS = 60.0, 0.03
GANGS = (1, 1, 1, 2, 4, 8)
RUNS = 20


def pool_of(count: int, devices: float, rng: random.Random, late_s: float) -> tuple[FairDevices, list[WholeGang]]:
    """Gangs that came in the last hours, and their copies; ``late_s``: by how much the pool is behind them."""
    fair, found = FairDevices(devices), list[WholeGang]()
    sizes = [(float(rng.choice(GANGS)), rng.lognormvariate(7.5, 1.2)) for _ in range(count)]
    for number, (gpus, left_s) in enumerate(sizes):
        fair.know(f"j{number}", gpus, left_s * gpus, 0.0)
    fair.look(0.0)
    free = devices
    for number, (gpus, left_s) in enumerate(sizes):
        runs = gpus <= free
        free -= gpus if runs else 0.0
        ends_s = fair.gangs[f"j{number}"].ends_s or 0.0
        found.append(
            WholeGang(
                name=f"j{number}",
                devices=gpus,
                left_s=left_s,
                start_s=0.0 if runs else 20.0,
                stop_s=20.0,
                came_s=-rng.uniform(0, 5_000),
                fair_end_s=ends_s - late_s,
                index=1 / left_s,
                runs=runs,
            )
        )
    return fair, found


def decide(gangs: list[WholeGang], devices: float, *, stops: bool) -> int:
    """A decision, on counted devices; how many gangs have any."""
    free = devices

    def take(index: int) -> bool:
        nonlocal free
        fits = gangs[index].devices <= free
        free -= gangs[index].devices if fits else 0.0
        return fits

    promised = promise(gangs, devices, SLOT_S, LATENESS)
    chosen = divide(gangs, list(in_turn(gangs, promised, devices, SLOT_S, hold=False)), take)
    if stops:
        free = devices
        chosen = divide(gangs, list(in_turn(gangs, promised, devices, SLOT_S)), take)
    return len(chosen)


def median_ms(deed: Callable[[], object]) -> float:
    """Milliseconds of the processor, by the median of some runs."""
    return 1_000 * statistics.median(cpu_s(deed) for _ in range(RUNS))


def measure(count: int) -> None:
    """One size."""
    devices = max(16.0, count * 256 / 900)
    fair, gangs = pool_of(count, devices, random.Random(1), 0.0)  # noqa: S311 - no secret
    _, behind = pool_of(count, devices, random.Random(1), 1_500.0)  # noqa: S311

    def look() -> None:
        fair.stale = True
        fair.look(0.0)

    figure(
        f"{count} jobs",
        decision_ms=round(median_ms(lambda: decide(gangs, devices, stops=False)), 2),
        stops_ms=round(median_ms(lambda: decide(gangs, devices, stops=True)), 2),
        behind_ms=round(median_ms(lambda: decide(behind, devices, stops=True)), 2),
        forecast_ms=round(median_ms(look), 2),
    )


if __name__ == "__main__":
    for size in each("sizes", options(__doc__, jobs=((10,), (100, 300, 900), (100, 300, 900, 2_000))).jobs):
        measure(size)
