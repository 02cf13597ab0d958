"""How often a silence is called hung that was none, and how long one is kept that is: public runs, and simulated jobs.

The simulated jobs draw what real ones do: steps of 0.1 to 3 s with slow ones among them, evaluations, saves and refills.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest
from tests.unit.watch.test_public_curves import DATA, algoperf

from steepest.events.common import Activity
from steepest.policies.watch.rhythm import STILL_MS, JobRhythm, Silences

pytestmark = pytest.mark.slow

JOBS, STEPS = 100, 2_000


class Sign(NamedTuple):
    """A report: when, whether it is a step, what the newest line is about, and whether the job used CPU before it."""

    at_s: float
    is_step: bool
    activity: Activity = Activity.OTHER
    was_busy: bool = False


def heard(signs: Iterable[Sign], earlier: Silences | None = None) -> tuple[JobRhythm, int]:
    """What is known of a job after these signs, and how often it was called hung."""
    rhythm = JobRhythm(incarnation=1, at_ms=0, busy_ms=0, most_m=900, earlier=earlier or Silences())
    step = hung = 0
    for sign in signs:
        rhythm.use(900 if sign.was_busy else 0, None, int(1_000 * sign.at_s), int(1_000 * sign.at_s))
        hung += rhythm.is_hung
        step += sign.is_step
        rhythm.hear(step or None, (None, None), sign.activity)
    return rhythm, hung


def job(rng: random.Random, *, names_phases: bool) -> Iterator[Sign]:
    """A whole training; storage that stalls leaves the CPU unused half of the time."""
    step_s, evaluation = 10 ** rng.uniform(-1, 0.5), rng.uniform(30, 150)
    now_s = rng.uniform(30, 300)
    for step in range(1, STEPS):
        yield Sign(now_s, is_step=True, was_busy=step == 1)
        gap, was_busy = step_s * rng.lognormvariate(0, 0.08), True
        if rng.random() < 0.02:
            gap, was_busy = gap + step_s * rng.paretovariate(2.0), rng.random() < 0.5
        if step % 150 == 0:
            gap += step_s * rng.uniform(5, 30)
        now_s += gap
        for every, activity, long_s in (
            (500, Activity.EVALUATION, evaluation),
            (300, Activity.SAVING, rng.uniform(10, 40)),
        ):
            if step % every == 0:
                yield Sign(
                    now_s, is_step=False, activity=activity if names_phases else Activity.OTHER, was_busy=was_busy
                )
                now_s, was_busy = now_s + step_s * long_s, True
                yield Sign(now_s, is_step=False, was_busy=True)


def jobs(seed: int, *, names_phases: bool = True) -> list[list[Sign]]:
    """Several."""
    return [list(job(random.Random(seed + number), names_phases=names_phases)) for number in range(JOBS)]


@pytest.mark.skipif(DATA is None, reason="no public curves: set STEEPEST_DATA to a folder that holds them")
def test_no_evaluation_of_a_public_run_is_called_hung() -> None:
    """401 series of wall times; each silence counts as one without use of CPU, where least is allowed."""
    runs = [[Sign(each[2], is_step=True) for each in run["evals"]] for run in algoperf() if len(run["evals"]) > 1]
    assert len(runs) == 401
    assert [number for number, run in enumerate(runs) if heard(run)[1]] == []


def test_few_jobs_that_evaluate_save_and_stall_are_called_hung() -> None:
    """Three in a hundred at most, whether their output names the phases or not; and of a model that is known, no more."""
    for named in (True, False):
        false = [bool(heard(signs)[1]) for signs in jobs(0, names_phases=named)]
        assert sum(false) <= 0.03 * JOBS
    assert sum(bool(heard(signs, known(number))[1]) for number, signs in enumerate(jobs(0))) <= 0.03 * JOBS


def known(number: int) -> Silences:
    """What another job of the same model has shown."""
    return Silences().and_those_of(heard(job(random.Random(number), names_phases=True))[0])


def test_a_job_whose_output_names_its_phases_is_found_sooner() -> None:
    """Between two steps, by half: a long evaluation says nothing of them. In an evaluation it has as long as before."""
    allowed = {
        named: statistics.median(
            max(STILL_MS, heard(signs[: 3 * len(signs) // 4])[0].allowed_ms)
            for signs in jobs(1, names_phases=named)[:30]
        )
        for named in (True, False)
    }
    assert allowed[True] < 0.5 * allowed[False]
