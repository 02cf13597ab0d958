"""How jobs of a recording continue: the cost of their steps, how many are left, and what they will report.

Where the recording shows a job finish, its steps and losses are known, under every policy. Where it does not, they are
a guess: the loss follows the curve fitted to the reports so far, and the job ends at the total that it states, or without
one once that curve has no more than ``LEFT_OVER`` of its whole fall before it. How wrong the guess may be is shown by making
it again from other reports: each seed but the first draws as many of them as there are, with repetition (a bootstrap of the
fit), and gives one course.
"""

from __future__ import annotations

import bisect
import itertools
import random
import statistics
from collections.abc import Callable, Mapping, Sequence

import msgspec

from steepest_lab.baselines.loss_fit import FEWEST, FittedCurve, fit
from steepest_lab.sim.whatif.history import FULL, JobObservations, RecordedPool
from steepest_lab.simulated.model import Delay, Model

LEFT_OVER = 0.01
"""A job ends when this share of its loss's fall is left."""

MOST_TIMES = 20
"""A fitted curve is trusted up to this multiple of the seen steps, if it does not flatten before."""

POINTS = 60
"""Reports that a fit is made of: evenly chosen ones show as much as all."""

CORE_M = 1000
"""CPU that a process can use if it was always throttled when measured: most trainings keep one core busy."""

USUAL_LAUNCH_S = 1.0
USUAL_STEP_S = 1.0


class Future(msgspec.Struct, frozen=True):
    """A job's course.

    Attributes:
        model: What it does on a node.
        known: The recording shows its end, or the process states it.
    """

    model: Model
    known: bool


def future(name: str, recorded: RecordedPool, seed: int) -> Future:
    """The course of one job under one seed.

    Args:
        name: The job.
        recorded: What the recording shows, beyond the position as well; but of a job that is not seen to finish, only
            reports before it count.
        seed: 0: from all reports; others draw from them.
    """
    seen, at_ms = recorded.seen[name], recorded.start.at_ms
    known = seen.finished
    reports = [report for report in seen.reports if known or report[0] <= at_ms]
    demand_m, step_s = _cost(seen, recorded.gives_m)
    points = _by_step(reports)
    curve = None if known else fit_of(points, random.Random(f"{seed}/{name}") if seed else None)  # noqa: S311 - no secret
    stated = None if known or seen.total is None or seen.total < _newest(points) else seen.total
    steps = _newest(points, seen.last_step) if known else stated or _last_step(points, curve)
    launch_s = _launch_s(seen, step_s)
    return Future(
        Model(
            mode=seen.mode,
            steps=max(1, steps),
            total=seen.total,
            step_s=step_s,
            demand_m=demand_m,
            idle_m=0,
            report_every=_spacing(points),
            loss=_losses(points, curve),
            delay_s=lambda delay, _: launch_s if delay is Delay.LAUNCH else 0.1,
        ),
        known or stated is not None,
    )


def fit_of(points: Sequence[tuple[int, float]], rng: random.Random | None) -> FittedCurve | None:
    """The curve through some reports, or through as many drawn from them."""
    chosen = points[:: max(1, len(points) // POINTS)]
    if rng is not None:
        chosen = sorted(rng.choices(chosen, k=len(chosen)))
    return fit([(float(step), value) for step, value in chosen]) if len(chosen) >= FEWEST else None


def _by_step(reports: Sequence[tuple[int, int, int, float]]) -> list[tuple[int, float]]:
    """Step and value, rising; of a step that was repeated after a restart the last report counts."""
    return sorted({step: value for _, _, step, value in reports}.items())


def _cost(seen: JobObservations, gives_m: Mapping[str, int]) -> tuple[int, float]:
    """CPU that each of its processes can use, in millicores, and the seconds of a step with all of it."""
    use = seen.use
    held_back = use.was_limited or use.node_m >= FULL * gives_m.get(use.most_on, 0)
    most_m = use.most_m // use.replicas
    demand_m = max(most_m, CORE_M) if held_back else most_m
    cpu_ms = _cpu_ms_of_a_step(seen)
    if cpu_ms:
        return demand_m or CORE_M, cpu_ms / (demand_m or CORE_M)
    spans = [(later[0] - one[0], later[2] - one[2]) for one, later in _neighbours(seen)]
    paces = [span_ms / 1000 / more for span_ms, more in spans if more > 0 and span_ms > 0]
    return 0, statistics.median(paces) if paces else USUAL_STEP_S


def _cpu_ms_of_a_step(seen: JobObservations) -> float:
    """CPU time that each of its processes needs for a step, as precisely as the recording shows; 0: it does not.

    What a process uses before its first report (imports, loading data) is no step's, where its steps are known with it.
    """
    whole = [(work.first, work.newest) for work in seen.work.values() if work.first and work.newest]
    steps = sum(newest[0] - first[0] for first, newest in whole)
    cpu_ms = sum(newest[1] - first[1] for first, newest in whole)
    if steps > 0 < cpu_ms:
        return cpu_ms / steps
    done, replicas = _steps_done(seen), len({replica for _, replica in seen.work}) or 1
    used_ms = sum(work.cpu_ms for work in seen.work.values()) or seen.use.millicore_ms / 1000
    return used_ms / replicas / done if done else 0.0


def _neighbours(seen: JobObservations) -> list[tuple[tuple[int, int, int, float], tuple[int, int, int, float]]]:
    pairs = zip(seen.reports, seen.reports[1:], strict=False)
    return [(one, later) for one, later in pairs if one[1] == later[1]]


def _steps_done(seen: JobObservations) -> int:
    """Steps trained, those twice that were trained twice."""
    done: dict[int, tuple[int, int]] = {}
    for _, incarnation, step, _ in seen.reports:
        first, _last = done.get(incarnation, (step, step))
        done[incarnation] = (first, step)
    spans = sorted(done.items())
    begin = 0
    total = 0
    for number, (_, (first, last)) in enumerate(spans):
        total += last - (begin if number == 0 else min(first, begin))
        begin = last
    return total


def _launch_s(seen: JobObservations, step_s: float) -> float:
    """From the placement to the first step, as the fastest of its incarnations shows it."""
    firsts: dict[int, int] = {}
    for at_ms, incarnation, _, _ in seen.reports:
        firsts.setdefault(incarnation, at_ms)
    spans = [(firsts[one] - at_ms) / 1000 for one, at_ms in seen.placed_ms.items() if one in firsts]
    return max(0.05, min(spans) - _spacing(_by_step(seen.reports)) * step_s) if spans else USUAL_LAUNCH_S


def _spacing(points: Sequence[tuple[int, float]]) -> int:
    """Steps between two reports."""
    gaps = [later[0] - one[0] for one, later in itertools.pairwise(points)]
    return max(1, round(statistics.median(gaps))) if gaps else 1


def _newest(points: Sequence[tuple[int, float]], last_step: int | None = None) -> int:
    return last_step or (points[-1][0] if points else 0)


def _last_step(points: Sequence[tuple[int, float]], curve: FittedCurve | None) -> int:
    """Where it ends: where the curve has flattened; without one, after as much again as was seen."""
    done = max(1, _newest(points))
    if curve is None:
        return 2 * done
    whole = points[0][1] - curve.floor
    step = done
    while step < MOST_TIMES * done and curve.at(step) - curve.floor > LEFT_OVER * whole:
        step += max(1, done // 50)
    return max(step, done + 1)


def _losses(points: Sequence[tuple[int, float]], curve: FittedCurve | None) -> Callable[[int], float | None] | None:
    """The job's future losses: the recorded ones, else by its curve."""
    if not points:
        return None
    steps = [step for step, _ in points]

    def loss(step: int) -> float:
        place = bisect.bisect_left(steps, step)
        if place < len(points):
            return points[place][1]
        return points[-1][1] if curve is None else min(curve.at(step), points[-1][1])

    return loss
