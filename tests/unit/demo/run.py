"""A run made by hand that holds every kind of event that the demo prints."""

from __future__ import annotations

from tests.harness.scenarios.log_builder import BECAUSE
from tests.harness.scenarios.log_builder import LogBuilder as Log

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.read_models.run_timeline import RunTimeline


def growth(log: Log, job: str, *means: float, category: c.Category = c.Category.PROGRESSING) -> Log:
    """Intervals of a job with these means."""
    for interval, mean in enumerate(means, 1):
        log.add(
            c.GrowthMeasured(
                job=job,
                interval=interval,
                total=2 * mean,
                count=2,
                largest=max(means),
                first_ms=0,
                last_ms=1,
                growth=0.125 if interval > 1 else None,
                category=category,
            )
        )
    return log


def category(log: Log, job: str, before: c.Category, after: c.Category) -> Log:
    """A job passes from one category to another."""
    return log.add(c.CategoryChanged(job=job, before=before, after=after, growth=0.001))


def log() -> Log:
    """``mover`` goes from n1 to n2 and finishes, ``stayer`` cannot be saved and stays, ``broken`` fails, ``late`` waits."""
    built = Log().opened(n1=600, n2=450, n3=350)
    built.running("mover", "n1", 50)
    built.running("stayer", "n1", 50, CheckpointMode.NONE)
    built.running("broken", "n2", 50)
    growth(built, "mover", 4.0, 2.0, 1.0)
    category(built, "mover", c.Category.PROGRESSING, c.Category.WATCHED)
    category(built, "mover", c.Category.WATCHED, c.Category.CONVERGED)
    built.moved("mover", "n1", "n2")
    growth(built, "stayer", 3.0, 3.0)
    category(built, "stayer", c.Category.PROGRESSING, c.Category.WATCHED)
    built.add(c.StayDecided(job="stayer", incarnation=1, node="n1", because=BECAUSE))
    built.exited("broken", "n2", status=3)
    built.add(c.JobEnded(job="broken", outcome=c.Outcome.FAILED, exit_status=3, reason="it exited with status 3"))
    built.exited("mover", "n2", 2)
    return built.submitted("late", 50)


def story() -> RunTimeline:
    """The story of all of it."""
    return RunTimeline.of(log().records)
