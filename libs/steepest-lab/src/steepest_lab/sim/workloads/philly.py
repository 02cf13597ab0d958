"""Jobs of a line each, with GPUs and a length: Philly's trace, those of Helios and Acme, and a plain table.

* Philly (Microsoft), as the Pollux artifact has it: ``timestamp,duration,num_gpus,gpu_time,cluster``; times are dates.
* Helios (SenseTime) and Acme (Shanghai AI Laboratory): ``submit_time``, ``gpu_num`` and ``duration`` among others; dates.
* Plain: ``submit,gpus,duration``, all in numbers; the submission in seconds from zero.

Lines are unordered. Where times are dates, the first submission becomes time zero. There are no iterations: one per second
is assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from steepest.events.common import Resources
from steepest_lab.sim.table import LONGEST_S, MOST_GPUS, Row, csv_rows
from steepest_lab.sim.workload import SimJob
from steepest_lab.sim.workloads.dates import seconds_since_1970
from steepest_lab.sim.workloads.found import Found, Skip

COLUMNS = ("timestamp", "duration", "num_gpus")
HELIOS = ("submit_time", "duration", "gpu_num")
PLAIN = ("submit", "duration", "gpus")


def _seconds(row: Row, column: str) -> float:
    return row.number(column, least=0, most=LONGEST_S)


def _read(
    text: str, source: object, *, columns: tuple[str, str, str], submitted: Callable[[Row, str], float]
) -> Iterator[Found]:
    """The jobs, with submissions in seconds since 1970 where they are dates, as if the cluster's clock had been UTC.

    Raises:
        InputError: A line is not what the format says.
    """
    submission, length, count = columns
    for number, row in enumerate(csv_rows(text, columns, source)):
        submit_s = submitted(row, submission)
        work_s = row.number(length, least=0, most=LONGEST_S)
        gpus = row.whole(count, least=0, most=MOST_GPUS)
        if not gpus or not work_s:
            yield Found(row.line, Skip("ran for no time" if gpus else "asked for no GPU"))
            continue
        cluster = row.optional("cluster")
        job = SimJob(
            name=f"job-{number}",
            submit_s=submit_s,
            requests=Resources(gpus=gpus),
            work_s=work_s,
            iterations=max(1, round(work_s)),
            details={"cluster": cluster} if cluster else {},
        )
        yield Found(row.line, job)


read_philly = partial(_read, columns=COLUMNS, submitted=seconds_since_1970)
read_helios = partial(_read, columns=HELIOS, submitted=seconds_since_1970)
read_plain = partial(_read, columns=PLAIN, submitted=_seconds)
