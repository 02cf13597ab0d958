"""Traces of the Tiresias and Muri simulators: one CSV line per job, ``job_id,num_gpu,submit_time,iterations,model_name,…``.

Tiresias (Gu and others, NSDI 2019) writes seconds. Muri (Zhao and others, SIGCOMM 2022) took the form over, writes
milliseconds, and adds ``iteration_time``; a job's work is ``iterations`` × ``iteration_time`` there, and ``duration`` is not
read. Factors that their simulators apply to these columns belong to their rules, not to this reader.
"""

from __future__ import annotations

from collections.abc import Iterator

from steepest.events.common import Resources
from steepest_lab.sim.table import LONGEST_S, MOST_GPUS, MOST_ITERATIONS, Row, csv_rows
from steepest_lab.sim.workload import SimJob
from steepest_lab.sim.workloads.found import Found

TIRESIAS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration")
MURI = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "iteration_time")

_DETAILS = ("iterations", "iteration_time", "num_gpu", "model_name", "duration")
_BATCH = 10**9


def read_muri(text: str, source: object) -> Iterator[Found]:
    """The jobs of a trace whose times are milliseconds.

    Raises:
        InputError: A line is not what the format says.
    """
    for row in csv_rows(text, MURI, source):
        iterations = row.whole("iterations", least=1, most=MOST_ITERATIONS)
        per_iteration_ms = row.number("iteration_time", least=0, most=LONGEST_S)
        work_s = iterations * per_iteration_ms / 1000
        if not 0 < work_s <= LONGEST_S:
            raise row.wrong("iteration_time", f"with {iterations} iterations the job takes {work_s:g} s")
        yield _found(row, iterations, work_s, submit_s=row.number("submit_time", least=0, most=LONGEST_S * 1000) / 1000)


def read_tiresias(text: str, source: object) -> Iterator[Found]:
    """The jobs of a trace whose times are seconds.

    Raises:
        InputError: A line is not what the format says.
    """
    for row in csv_rows(text, TIRESIAS, source):
        work_s = row.number("duration", least=0, most=LONGEST_S)
        if not work_s:
            raise row.wrong("duration", "the job takes no time")
        iterations = row.whole("iterations", least=1, most=MOST_ITERATIONS)
        yield _found(row, iterations, work_s, submit_s=row.number("submit_time", least=0, most=LONGEST_S))


def _found(row: Row, iterations: int, work_s: float, *, submit_s: float) -> Found:
    job = SimJob(
        name=f"job-{row.text('job_id')}",
        submit_s=submit_s,
        requests=Resources(gpus=row.whole("num_gpu", least=1, most=MOST_GPUS)),
        work_s=work_s,
        iterations=iterations,
        model=row.text("model_name"),
        batch_size=row.whole("batch_size", least=1, most=_BATCH) if row.optional("batch_size") else None,
        details={column: value for column in _DETAILS if (value := row.optional(column))},
    )
    return Found(row.line, job, "job_id")
