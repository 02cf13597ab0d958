"""How far jobs are, read off their newest reports."""

from __future__ import annotations

import asyncio

import pytest
from tests.harness.memory_log import MemoryLog

from steepest.cli.commands.jobs import growth_of
from steepest.cli.jobs.progress import RECORDS_MOST, progress_of
from steepest.events import cluster as c
from steepest.events.loss import LossDiverged, LossReported
from steepest.log.base import TopicPartition
from steepest.read_models.job_rows import NewestReport
from steepest.runtime.decode import new_record
from steepest.view.state import Job

Report = LossReported | LossDiverged
LOSS = TopicPartition("loss", 0)


def report(step: int | None, value: float = 0.5, *, incarnation: int = 1) -> LossReported:
    """A report of job ``a``."""
    return LossReported(job="a", incarnation=incarnation, step=step, value=value)


def read(*reports: Report) -> dict[str, NewestReport]:
    """What is known after these reports, one a second."""

    async def reading() -> dict[str, NewestReport]:
        log = MemoryLog({"loss": 2})
        await log.append([new_record(LOSS, "a", event, 1_000 * (number + 1)) for number, event in enumerate(reports)])
        return await progress_of(log)

    return asyncio.run(reading())


def test_the_newest_report_counts() -> None:
    """Step, epoch and loss are the newest; a held-out loss is none of the training."""
    newest = LossReported(job="a", incarnation=1, step=3, epoch=1.5, value=0.7)
    held_out = LossReported(job="a", incarnation=1, step=9, value=9.0, split="eval")
    found = read(report(1, 0.9), newest, held_out)["a"]

    assert (found.step, found.epoch, found.loss) == (3, 1.5, 0.7)


def test_a_loss_that_is_no_number_is_none() -> None:
    """It is not the one before either."""
    assert read(report(1), LossDiverged(job="a", incarnation=1, step=2, value="nan"))["a"].loss is None


def test_an_older_incarnation_says_nothing() -> None:
    """A late report of the one before the newest is passed over."""
    assert read(report(5, incarnation=2), report(9, 0.1))["a"].step == 5


def test_a_bounded_tail_is_read() -> None:
    """However long the topic is."""
    old = LossReported(job="old", incarnation=1, step=1, value=1.0)

    assert set(read(old, *(report(step) for step in range(RECORDS_MOST)))) == {"a"}


@pytest.mark.parametrize(
    ("growth", "alive", "shown"),
    [(0.0123, True, "1.23 %"), (None, True, "unknown"), (None, False, ""), (0.0, True, "0.00 %")],
)
def test_growth_is_a_percentage(growth: float | None, alive: object, shown: str) -> None:
    """It is unknown, and not 0, of a job that runs and was never measured; one that waits has none."""
    job = Job(
        name="a",
        request="r",
        spec=c.JobSpec(command=("true",)),
        submitted_ms=0,
        submitted_offset=0,
        submitted_counted_ms=0,
        growth=growth,
        alive=bool(alive),
    )

    assert growth_of(job.growth, alive=job.alive) == shown
