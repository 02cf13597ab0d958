"""The same workload under a policy and under none, side by side. It claims nothing: it puts measured times together."""

from __future__ import annotations

import msgspec

from steepest.demo.report import Table
from steepest.demo.run_timeline import RunTimeline
from steepest.describe import count, span
from steepest.policies.named import POLICIES, named


class JobComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Completion times of one job, in seconds; None where it did not end. “Without moves” is also without limits."""

    job: str
    with_moves_s: float | None
    without_moves_s: float | None


class DemoComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs from the same first placement.

    Attributes:
        policy: What the first run was under, in words.
        with_moves_s: Seconds of the run under it; mean completion time of its jobs.
        shorter: Jobs whose completion time was shorter with moves.
        longer: Jobs whose completion time was longer.
        without_moves_recording: The second run's recording.
    """

    policy: str
    with_moves_s: float
    without_moves_s: float
    mean_with_moves_s: float
    mean_without_moves_s: float
    shorter: int
    longer: int
    without_moves_recording: str
    per_job: list[JobComparison]


def compare(with_moves: RunTimeline, without_moves: RunTimeline, recording: str) -> DemoComparison:
    """Put two runs of one workload side by side. The means are over the jobs that ended in both."""
    jobs = [
        JobComparison(
            job=name, with_moves_s=_completion(with_moves, name), without_moves_s=_completion(without_moves, name)
        )
        for name in with_moves.jobs
    ]
    pairs = [
        (job.with_moves_s, job.without_moves_s)
        for job in jobs
        if job.with_moves_s is not None and job.without_moves_s is not None
    ]
    return DemoComparison(
        policy=POLICIES[named(with_moves.view.parameters)].title,
        with_moves_s=_length(with_moves),
        without_moves_s=_length(without_moves),
        mean_with_moves_s=_mean([first for first, _ in pairs]),
        mean_without_moves_s=_mean([second for _, second in pairs]),
        shorter=sum(first < second for first, second in pairs),
        longer=sum(first > second for first, second in pairs),
        without_moves_recording=recording,
        per_job=jobs,
    )


def comparison_table(compared: DemoComparison) -> Table:
    """A row a job, and the mean and the whole run below."""
    rows = [_row(job.job, job.with_moves_s, job.without_moves_s) for job in compared.per_job]
    rows.append(_row("mean of the jobs", compared.mean_with_moves_s, compared.mean_without_moves_s))
    rows.append(_row("the whole run", compared.with_moves_s, compared.without_moves_s))
    return ("completion time", f"#with {compared.policy}", "#without", "#difference"), rows


def verdict(compared: DemoComparison) -> str:
    """What came out, in a sentence, whichever way it is."""
    mean = compared.mean_with_moves_s - compared.mean_without_moves_s
    return (
        f"with {compared.policy} {count(compared.shorter, 'job')} took less time and {compared.longer} more; "
        f"the mean completion time was {span(round(abs(mean) * 1000))} {'longer' if mean > 0 else 'shorter'}. "
        "One pair of runs on a busy machine: times differ from run to run."
    )


def _row(name: str, first: float | None, second: float | None) -> list[str]:
    difference = "" if first is None or second is None else f"{first - second:+.1f} s"
    return [name, *("" if value is None else f"{value:.1f} s" for value in (first, second)), difference]


def _completion(story: RunTimeline, name: str) -> float | None:
    job = story.jobs.get(name)
    return None if job is None or job.completion_ms is None else job.completion_ms / 1000


def _length(story: RunTimeline) -> float:
    return (story.now_ms - story.began_ms) / 1000


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
