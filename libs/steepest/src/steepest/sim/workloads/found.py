"""From the jobs that a reader finds to a workload: names, order, and the time that is zero.

It owns what all formats have in common once a line has been read. It must never know how a line is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from steepest.errors import InputError
from steepest.sim.workload import SimJob, Workload
from steepest.sim.workloads.names import fit_names


class Skip(msgspec.Struct, frozen=True):
    """A sound line that is no job of a simulation, and why not."""

    why: str


class Found(msgspec.Struct, frozen=True):
    """What a line says, and the line's number.

    Attributes:
        column: Where the name stands; empty where the reader has made it.
    """

    line: int
    job: SimJob | Skip
    column: str = ""


def workload_of(found: Iterable[Found], *, source: object, format_: str, from_first: bool = False) -> Workload:
    """The jobs in the order of their submission; of equal times, in the source's.

    Args:
        found: In the source's order. Names are as they stand there, and are made fit for the log here.
        source: The file, for messages and reports.
        format_: Of the source.
        from_first: The first submission becomes time zero; if not, the source's zero is kept.

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
                hint="Give every job a name of its own.",
            )
        jobs.append(one.job)
    if not jobs:
        why = ", ".join(f"{times} × {reason}" for reason, times in sorted(skipped.items()))
        raise InputError(
            f"{source}: there is no job in it" + (f" ({why})" if why else ""), hint="Name a file with jobs."
        )
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
