"""Build a workload from the jobs that a reader found: names, order, and time zero.

It owns what all formats share after a line has been parsed. It must never know how a line is parsed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from steepest.errors import InputError
from steepest_lab.sim.workload import SimJob, Workload
from steepest_lab.sim.workloads.names import fit_names


class Skip(msgspec.Struct, frozen=True):
    """A valid line that is not simulated as a job, and why."""

    why: str


class Found(msgspec.Struct, frozen=True):
    """A parsed line and its number.

    Attributes:
        column: The column of the job's name; empty if the reader generated the name.
    """

    line: int
    job: SimJob | Skip
    column: str = ""


def workload_of(found: Iterable[Found], *, source: object, format_: str, from_first: bool = False) -> Workload:
    """The jobs in the order of submission; jobs with equal times keep the source's order.

    Args:
        found: In the source's order, with the source's names; they are converted to valid names here.
        source: The file, for messages and reports.
        format_: The source's format.
        from_first: The first submission becomes time zero; otherwise the source's zero is kept.

    Raises:
        InputError: Two jobs have the same name, or there is no job.
    """
    skipped: Counter[str] = Counter()
    jobs: list[SimJob] = []
    lines: dict[str, int] = {}
    for one in found:
        if isinstance(one.job, Skip):
            skipped[one.job.why] += 1
            continue
        if (earlier := lines.setdefault(one.job.name, one.line)) != one.line:
            raise InputError(
                f"{source}, line {one.line}, column {one.column}: line {earlier} has a job {one.job.name!r} already",
                hint="Give every job a unique name.",
            )
        jobs.append(one.job)
    if not jobs:
        why = ", ".join(f"{times} × {reason}" for reason, times in sorted(skipped.items()))
        raise InputError(f"{source}: has no jobs" + (f" ({why})" if why else ""), hint="Name a file with jobs.")
    zero = min(job.submit_s for job in jobs) if from_first else 0.0
    return Workload(
        source=str(source), format=format_, jobs=_in_order(jobs, zero), skipped=dict(sorted(skipped.items()))
    )


def _in_order(jobs: Sequence[SimJob], zero: float) -> tuple[SimJob, ...]:
    names = fit_names([job.name for job in jobs])
    renamed = (
        msgspec.structs.replace(job, name=name, submit_s=job.submit_s - zero) if zero or name != job.name else job
        for job, name in zip(jobs, names, strict=True)
    )
    return tuple(sorted(renamed, key=lambda job: job.submit_s))
