"""Algorithm 3, case by case: one record a line, and behind the bar what must follow from it.

A line reads ``seconds job what | growths, moves, requests``. What is said: ``watch INCARNATION [name=value …]``,
``loss VALUE [incarnation=…]``, ``eval VALUE``, ``diverge``, ``unwatch``. What follows: ``INTERVAL:GROWTH:CATEGORY``,
``BEFORE>AFTER`` and ``request``.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steepest.events.cluster import CategoryChanged, GrowthMeasured, ReallocationRequested
from steepest.events.loss import JobUnwatched, JobWatched, LossDiverged, LossReported
from steepest.events.parameters import SpeConParameters
from steepest.events.received import Received
from steepest.policies.decider import Decision
from steepest.policies.specon.categorizer import Categorizer

SCENARIOS = {
    "the earliest request comes 120 s after the first report: G1 is a baseline, G2 and G3 move, G4 asks": """
          0 a watch 1       |
          0 a loss 1.0      |
         20 a loss 1.0      |
         50 a loss 1.0      | 1:0.0:PC
         80 a loss 1.0      | 2:0.0:WC PC>WC
        110 a loss 1.0      | 3:0.0:CC WC>CC
        120 a loss 1.0      |
    120.001 a loss 1.0      | 4:0.0:CC request
        151 a loss 1.0      | 5:0.0:CC request
    """,
    "with the request tick `same` the job asks in the interval in which it converged": """
          0 a watch 1 request_tick=same |
          0 a loss 1.0      |
         20 a loss 1.0      |
         50 a loss 1.0      | 1:0.0:PC
         80 a loss 1.0      | 2:0.0:WC PC>WC
        110 a loss 1.0      | 3:0.0:CC WC>CC request
        140 a loss 1.0      | 4:0.0:CC request
    """,
    "growth of exactly alpha moves a job nowhere, from any category": """
          0 a watch 1       |
          0 a loss 1.0      |
         20 a loss 0.50     |
         50 a loss 0.49     | 1:0.5:PC
         80 a loss 0.49     | 2:0.01:PC
        110 a loss 0.48     | 3:0.0:WC PC>WC
        140 a loss 0.48     | 4:0.01:WC
        170 a loss 0.47     | 5:0.0:CC WC>CC
        200 a loss 0.47     | 6:0.01:CC
        230 a loss 0.47     | 7:0.0:CC request
    """,
    "growth that bounced below alpha moves a job nowhere, and asks for nothing (lines 5 and 17)": """
          0 a watch 1 alpha=0.1 |
          0 a loss 1.000    |
         20 a loss 0.950    |
         50 a loss 0.880    | 1:0.05:PC
         80 a loss 0.840    | 2:0.07:PC
        110 a loss 0.790    | 3:0.04:WC PC>WC
        140 a loss 0.740    | 4:0.05:WC
        170 a loss 0.710    | 5:0.05:WC
        200 a loss 0.670    | 6:0.03:CC WC>CC
        230 a loss 0.640    | 7:0.04:CC
        260 a loss 0.640    | 8:0.03:CC request
    """,
    "a loss that does not change at all converges: growth of 0 cannot fall below the growth before": """
          0 a watch 1 |
          0 a loss 1.0      |
         20 a loss 1.0      |
         50 a loss 1.0      | 1:0.0:PC
         80 a loss 1.0      | 2:0.0:WC PC>WC
        110 a loss 1.0      | 3:0.0:CC WC>CC
        140 a loss 1.0      | 4:0.0:CC request
    """,
    "growth above alpha returns a watched and a converged job to progressing, and it converges again": """
          0 a watch 1       |
          0 a loss 1.0      |
         20 a loss 1.0      |
         50 a loss 1.0      | 1:0.0:PC
         80 a loss 0.5      | 2:0.0:WC PC>WC
        110 a loss 0.5      | 3:0.5:PC WC>PC
        140 a loss 0.5      | 4:0.0:WC PC>WC
        170 a loss 0.7      | 5:0.0:CC WC>CC
        200 a loss 0.7      | 6:0.2:PC CC>PC
        230 a loss 0.7      | 7:0.0:WC PC>WC
    """,
    "an interval without a report is no convergence: growth is taken from one epoch to the next": """
          0 a watch 1       |
          0 a loss 1.0      |
        100 a loss 0.9      |
        200 a loss 0.8      | 4:0.1:PC
        300 a loss 0.7      | 7:0.1:PC
        400 a loss 0.695    | 10:0.1:PC
        500 a loss 0.69     | 14:0.005:WC PC>WC
    """,
    "a report at the very end of an interval is in it, and one that falls in none opens its own": """
          0 a watch 1       |
          0 a loss 1.0      |
         30 a loss 0.5      |
         60 a loss 0.4      | 1:0.5:PC
     60.001 a loss 0.4      | 2:0.1:PC
    """,
    "an interval's value is the mean of its reports": """
          0 a watch 1       |
          0 a loss 1.0      |
          5 a loss 0.9      |
         10 a loss 0.7      |
         15 a loss 0.8      |
         31 a loss 0.5      | 1:0.2:PC
         32 a loss 0.7      |
         61 a loss 0.5      | 2:0.2:PC
    """,
    "a report from the past counts into the open interval": """
          0 a watch 1       |
        100 a loss 1.0      |
         50 a loss 0.8      |
        120 a loss 0.6      |
        131 a loss 0.5      | 1:0.3:PC
         90 a loss 0.3      |
        161 a loss 0.5      | 2:0.3:PC
    """,
    "negative losses grow by their distance, against the largest magnitude": """
          0 a watch 1       |
          0 a loss -4.0     |
         20 a loss -2.0     |
         50 a loss -4.0     | 1:0.5:PC
         80 a loss -4.0     | 2:0.5:PC
        110 a loss -4.0     | 3:0.0:WC PC>WC
    """,
    "losses of zero have no magnitude to compare with, and do not grow": """
          0 a watch 1       |
          0 a loss 0.0      |
         20 a loss -0.0     |
         50 a loss 0        | 1:0.0:PC
         80 a loss 0        | 2:0.0:WC PC>WC
    """,
    "with `none` growth is the bare difference": """
          0 a watch 1 normalisation=none alpha=0.5 |
          0 a loss 100      |
         20 a loss 99       |
         50 a loss 98       | 1:1.0:PC
         80 a loss 97.75    | 2:1.0:PC
        110 a loss 97.25    | 3:0.25:WC PC>WC
        140 a loss 97       | 4:0.5:WC
    """,
    "with `max` the same losses are compared with their largest": """
          0 a watch 1 alpha=0.005 |
          0 a loss 100      |
         20 a loss 99       |
         50 a loss 98       | 1:0.01:PC
         80 a loss 97.75    | 2:0.01:PC
        110 a loss 97.25    | 3:0.0025:WC PC>WC
        140 a loss 97       | 4:0.005:WC
    """,
    "a value beyond the interval's end is not part of the largest that the interval is divided by": """
          0 a watch 1       |
          0 a loss 2        |
         20 a loss 1        |
         50 a loss 8        | 1:0.5:PC
         80 a loss 8        | 2:0.875:PC
    """,
    "what is no number decides nothing": """
          0 a watch 1       |
          0 a loss 1.0      |
         20 a loss 0.9      |
         50 a diverge       |
         80 a diverge       |
        110 a loss 0.9      | 1:0.1:PC
    """,
    "only the watched metric of the training split counts, not even as a clock": """
          0 a watch 1       |
          0 a eval 5.0      |
          1 a loss 1.0      |
          2 a loss 0.1 metric=accuracy |
         20 a loss 0.9      |
         50 a eval 3.0      |
        110 a loss 0.9 metric=accuracy |
        120 a loss 0.9      | 1:0.1:PC
    """,
    "jobs do not touch each other": """
          0 a watch 1       |
          0 b watch 1       |
          0 a loss 1.0      |
         10 b loss 4.0      |
         20 a loss 1.0      |
         30 b loss 3.0      |
         31 a loss 1.0      | 1:0.0:PC
         40 b loss 3.0      |
         41 b loss 3.0      | 1:0.25:PC
         61 a loss 1.0      | 2:0.0:WC PC>WC
    """,
    "growth goes on across incarnations, and what the older one still says is ignored": """
          0 a watch 1       |
          0 a loss 1.0      |
         20 a loss 1.0      |
         50 a loss 1.0      | 1:0.0:PC
         70 a watch 2       |
         75 a loss 0.0      |
         80 a loss 1.0 incarnation=2 | 2:0.0:WC PC>WC
         85 a watch 1 alpha=9 |
        110 a loss 1.0 incarnation=2 | 3:0.0:CC WC>CC
    """,
    "a report of an incarnation that is not watched yet counts": """
          0 a watch 1       |
          0 a loss 1.0      |
         20 a loss 0.5 incarnation=2 |
         31 a loss 0.5 incarnation=2 | 1:0.5:PC
    """,
    "the newest parameters are in force from there: the open interval keeps its beginning": """
          0 a watch 1       |
          0 a loss 1.0      |
         20 a loss 0.7      |
         31 a loss 0.6      | 1:0.3:PC
         40 a watch 1 interval_ms=10000 alpha=0.5 |
         41 a loss 0.6      | 2:0.1:WC PC>WC
         50 a loss 0.5      |
         51 a loss 0.5      | 3:0.05:CC WC>CC
         60 a watch 2 interval_ms=30000 alpha=0.01 |
         80 a loss 0.5 incarnation=2 |
         81 a loss 0.5 incarnation=2 | 4:0.05:PC CC>PC
    """,
    "a job that is not watched has no growth, and one that is forgotten starts again": """
          0 a loss 1.0      |
         50 a loss 1.0      |
         60 a watch 1       |
         60 a loss 1.0      |
         80 a loss 1.0      |
        100 a loss 1.0      | 1:0.0:PC
        130 a loss 1.0      | 2:0.0:WC PC>WC
        140 a unwatch       |
        160 a loss 1.0      |
        200 a watch 1       |
        200 a loss 1.0      |
        210 a loss 1.0      |
        231 a loss 1.0      | 1:0.0:PC
    """,
}


def _event(job: str, words: list[str]) -> Any:
    kind, *arguments = words
    named = dict(argument.split("=") for argument in arguments if "=" in argument)
    incarnation = int(named.pop("incarnation", "1"))
    match kind:
        case "watch":
            parameters = msgspec.convert(named, SpeConParameters, strict=False)
            return JobWatched(job=job, pool="pool", incarnation=int(arguments[0]), metric="loss", parameters=parameters)
        case "loss" | "eval":
            split = "train" if kind == "loss" else "eval"
            value = float(arguments[0])
            metric = named.get("metric", "loss")
            return LossReported(job=job, incarnation=incarnation, value=value, split=split, metric=metric)
        case "diverge":
            return LossDiverged(job=job, incarnation=incarnation, value="nan")
        case "unwatch":
            return JobUnwatched(job=job)
    raise ValueError(f"no such event in a scenario: {kind}")


def _shown(decision: Decision) -> str:
    match decision.event:
        case GrowthMeasured() as measured:
            return f"{measured.interval}:{measured.growth}:{measured.category.value}"
        case CategoryChanged() as changed:
            return f"{changed.before.value}>{changed.after.value}"
        case ReallocationRequested():
            return "request"
    raise ValueError(f"the categorizer never says {decision.event}")


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_scenario(scenario: str) -> None:
    """Each record yields exactly what stands behind its bar, in that order."""
    categorizer = Categorizer()
    shown = []
    for offset, line in enumerate(lines := [line.strip() for line in scenario.strip().splitlines()]):
        said, _ = line.split("|")
        seconds, job, *words = said.split()
        at_ms = round(float(seconds) * 1000)
        received = Received(event=_event(job, words), topic="loss", partition=0, offset=offset, at_ms=at_ms, key=job)
        follows = " ".join(_shown(decision) for decision in categorizer.step(received))
        shown.append(f"{said}| {follows}".rstrip())
    assert shown == lines
