"""Cost of the categorizer: records a second from bytes to decisions, and the cost of a record as the jobs grow in number.

Its figures are those of ``frame/record_cost.py``, each beside a baseline of the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.frame.record_cost import FOLD_JOBS, Action, bare_update, measure

from steepest.events.loss import JobWatched, LossReported
from steepest.events.parameters import SpeConParameters
from steepest.events.received import Received
from steepest.events.registry import LOSS, encode
from steepest.policies.specon.categorizer import Categorizer

FOLD_EVERY_MS = 3_000
"""Each job reports this often, so that one report in ten ends an interval of 30 s."""

SCALE_EVERY_MS = 15_000
SCALE_WARM_UP = 5
"""Rounds before the measured ones, of which every second ends an interval, each in the same way."""

Raw = tuple[bytes, int, dict[str, str]]


def watches(jobs: int) -> list[Raw]:
    """One ``JobWatched`` a job."""
    parameters = SpeConParameters()
    return [
        (
            encode(JobWatched(job=f"job-{job}", pool="pool", incarnation=1, metric="loss", parameters=parameters)),
            0,
            {"source": "collector/1", "seq": str(job)},
        )
        for job in range(jobs)
    ]


def reports(jobs: int, rounds: range, every_ms: int, loss: Callable[[int], float]) -> Iterator[Raw]:
    """In each round one report of every job."""
    for number in rounds:
        for job in range(jobs):
            event = LossReported(job=f"job-{job}", incarnation=1, step=number, value=loss(number))
            headers = {"source": "collector/1", "seq": str((number + 1) * jobs + job)}
            yield encode(event), number * every_ms, headers


def flattening(number: int) -> float:
    """A loss that falls more and more slowly."""
    return 1 / (1 + number)


def swinging(number: int) -> float:
    """A loss that changes from each interval of two reports to the next, without end."""
    return 1.0 if number % 4 in {1, 2} else 0.5


def received(raw: Raw, offset: int) -> Received[Any]:
    """A record as the runtime hands it to a decider."""
    value, at_ms, headers = raw
    return Received(event=LOSS.decode(value), topic="loss", partition=0, offset=offset, at_ms=at_ms, headers=headers)


def fold(count: int) -> tuple[int, Action, Action]:
    """Records to decode, with and without the categorizer."""
    rounds = range(count // FOLD_JOBS)
    raws = [*watches(FOLD_JOBS), *reports(FOLD_JOBS, rounds, FOLD_EVERY_MS, flattening)]

    def decode() -> None:
        for offset, raw in enumerate(raws):
            received(raw, offset)

    def take_in() -> None:
        step = Categorizer().step
        for offset, raw in enumerate(raws):
            step(received(raw, offset))

    return len(raws), decode, take_in


def scale(jobs: int, count: int) -> tuple[int, Callable[[], tuple[Action, Action]]]:
    """Records of this many jobs."""
    rounds = range(SCALE_WARM_UP, SCALE_WARM_UP + 2 * max(1, count // (2 * jobs)))
    records = [received(raw, 0) for raw in reports(jobs, rounds, SCALE_EVERY_MS, swinging)]

    def prepare() -> tuple[Action, Action]:
        categorizer = Categorizer()
        for raw in (*watches(jobs), *reports(jobs, range(SCALE_WARM_UP), SCALE_EVERY_MS, swinging)):
            categorizer.step(received(raw, 0))

        def take_in() -> None:
            for record in records:
                categorizer.step(record)

        return take_in, bare_update((record.event.job for record in records), records)

    return len(records), prepare


if __name__ == "__main__":
    measure(__doc__, fold=fold, scale=scale)
