"""Jobs of Microsoft's Philly cluster, as the Pollux artifact has them: ``timestamp,duration,num_gpus,gpu_time,cluster``.

Lines are unordered. The first submission becomes time zero. The trace has no iterations: one per second is assumed.
"""

from __future__ import annotations

from collections.abc import Iterator

from steepest.events.common import Resources
from steepest_lab.sim.table import LONGEST_S, MOST_GPUS, csv_rows
from steepest_lab.sim.workload import SimJob
from steepest_lab.sim.workloads.dates import seconds_since_1970
from steepest_lab.sim.workloads.found import Found, Skip

COLUMNS = ("timestamp", "duration", "num_gpus")


def read_philly(text: str, source: object) -> Iterator[Found]:
    """The jobs, with submissions in seconds since 1970, as if the cluster's clock had been UTC.

    Raises:
        InputError: A line is not what the format says.
    """
    for number, row in enumerate(csv_rows(text, COLUMNS, source)):
        submit_s = seconds_since_1970(row, "timestamp")
        work_s = row.number("duration", least=0, most=LONGEST_S)
        gpus = row.whole("num_gpus", least=0, most=MOST_GPUS)
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
