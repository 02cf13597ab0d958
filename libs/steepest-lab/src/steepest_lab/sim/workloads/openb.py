"""Pods of Alibaba's production cluster (openb, 2023): ``name,cpu_milli,memory_mib,num_gpu,gpu_milli,…``.

A pod may use a part of a GPU (``gpu_milli``, kept in ``details``); whole GPUs are counted here. Pods that were running
when the trace ended have that moment for their end, and are taken as if they had ended by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

from steepest.events.common import Resources
from steepest_lab.sim.table import LONGEST_S, MOST_CPU_M, MOST_GPUS, MOST_MEMORY_MIB, csv_rows
from steepest_lab.sim.workload import SimJob
from steepest_lab.sim.workloads.found import Found, Skip

COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "creation_time", "deletion_time", "scheduled_time")

_DETAILS = ("gpu_milli", "gpu_spec", "qos", "pod_phase")


def read_openb(text: str, source: object) -> Iterator[Found]:
    """The pods, in seconds from the trace's zero; what ran lasts from its scheduling to its deletion.

    Raises:
        InputError: A line is not what the format says.
    """
    for row in csv_rows(text, COLUMNS, source):
        created = row.number("creation_time", least=0, most=LONGEST_S)
        deleted = row.number("deletion_time", least=0, most=LONGEST_S)
        requests = Resources(
            cpu_m=row.whole("cpu_milli", least=0, most=MOST_CPU_M),
            memory_mib=row.whole("memory_mib", least=0, most=MOST_MEMORY_MIB),
            gpus=row.whole("num_gpu", least=0, most=MOST_GPUS),
        )
        name = row.text("name")
        if not row.optional("scheduled_time"):
            yield Found(row.line, Skip("was never scheduled"))
            continue
        scheduled = row.number("scheduled_time", least=created, most=LONGEST_S)
        if deleted < scheduled:
            raise row.wrong("deletion_time", f"{deleted:g} is before the scheduled_time, {scheduled:g}")
        if deleted == scheduled:
            yield Found(row.line, Skip("ran for no time"))
            continue
        work_s = deleted - scheduled
        job = SimJob(
            name=name,
            submit_s=created,
            requests=requests,
            work_s=work_s,
            iterations=max(1, round(work_s)),
            details={column: value for column in _DETAILS if (value := row.optional(column))},
        )
        yield Found(row.line, job, "name")
