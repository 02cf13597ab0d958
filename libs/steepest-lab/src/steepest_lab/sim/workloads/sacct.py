"""A Slurm accounting export, ``sacct --parsable2``: ``JobID|Submit|ElapsedRaw|State|AllocTRES|…``.

Columns, states and the form of trackable resources (TRES) are those of Slurm's manual page of ``sacct``. A job of several
nodes whose resources divide evenly among them is that many replicas. The first submission becomes time zero; the accounting
has no iterations: one per second is assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from steepest.events.common import Resources
from steepest_lab.sim.table import LONGEST_S, MOST_CPU_M, MOST_GPUS, MOST_MEMORY_MIB, Row, csv_rows
from steepest_lab.sim.workload import SimJob
from steepest_lab.sim.workloads.dates import seconds_since_1970
from steepest_lab.sim.workloads.found import Found, Skip

COLUMNS = ("JobID", "Submit", "ElapsedRaw", "State", "AllocTRES")
DELIMITER = "|"

_DETAILS = ("JobName", "User", "Account", "Partition", "State")
_OPEN = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING", "STOPPED")
_MIB = {"": 1 / 1024**2, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)")
_MOST_NODES = 10**6


def read_sacct(text: str, source: object) -> Iterator[Found]:
    """The jobs that have ended, with submissions in seconds since 1970 as if the cluster's clock had been UTC.

    Raises:
        InputError: A line is not what the format says.
    """
    for row in csv_rows(text, COLUMNS, source, delimiter=DELIMITER):
        name, state = row.text("JobID"), row.text("State")
        work_s = row.whole("ElapsedRaw", least=0, most=int(LONGEST_S))
        if why := _why_no_job(name, state, work_s):
            yield Found(row.line, Skip(why))
            continue
        replicas, requests = _allocated(row)
        job = SimJob(
            name=f"job-{name}",
            submit_s=seconds_since_1970(row, "Submit"),
            requests=requests,
            replicas=replicas,
            work_s=float(work_s),
            iterations=work_s,
            details={column: value for column in _DETAILS if (value := row.optional(column))},
        )
        yield Found(row.line, job, "JobID")


def _why_no_job(name: str, state: str, elapsed_s: int) -> str:
    if "." in name:
        return "is a step of a job"
    if state.startswith(_OPEN):
        return "had not ended"
    return "" if elapsed_s else "ran for no time"


def _allocated(row: Row) -> tuple[int, Resources]:
    """The number of replicas, and the resources of each."""
    amounts = dict(part.partition("=")[::2] for part in row.text("AllocTRES", most=2000).split(","))
    nodes = _whole(row, amounts, "node", _MOST_NODES) or 1
    cpu_m = _whole(row, amounts, "cpu", MOST_CPU_M // 1000) * 1000
    memory_mib = _whole(row, amounts, "mem", MOST_MEMORY_MIB)
    gpus = _whole(row, amounts, "gres/gpu", MOST_GPUS) or _gpus_by_type(row, amounts)
    if cpu_m % nodes or gpus % nodes:
        nodes = 1
    return nodes, Resources(cpu_m // nodes, memory_mib // nodes, gpus // nodes)


def _gpus_by_type(row: Row, amounts: dict[str, str]) -> int:
    return sum(_whole(row, amounts, name, MOST_GPUS) for name in amounts if name.startswith("gres/gpu:"))


def _whole(row: Row, amounts: dict[str, str], name: str, most: int) -> int:
    """An amount, memory in MiB; 0 if the job has none."""
    shown = amounts.get(name, "0")
    match = _AMOUNT.fullmatch(shown)
    if match is None or (name != "mem" and not shown.isdigit()):
        raise row.wrong("AllocTRES", f"{name}={shown[:60]} is not an amount")
    amount = round(float(match[1]) * _MIB[match[2] or "M"]) if name == "mem" else int(shown)
    if amount > most:
        raise row.wrong("AllocTRES", f"{name}={shown[:60]} is above {most:g}, the largest that is read")
    return amount
