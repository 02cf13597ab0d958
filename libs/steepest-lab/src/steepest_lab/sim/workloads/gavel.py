"""Traces of Gavel (Narayanan and others, OSDI 2020): one line per job, ten cells separated by tabs, no header.

A line states how many steps a job has to do; its steps per second are in Gavel's file of measured throughputs
(``simulation_throughputs.json``: worker type → ``('<job type>', <scale factor>)`` → ``null`` → steps a second).
Shockwave's (Zheng and others, NSDI 2023) have two cells more: how the batch size changes, and the job's seconds alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from steepest.errors import InputError
from steepest.events.common import Resources
from steepest_lab.sim.table import LONGEST_S, MOST_GPUS, MOST_ITERATIONS, tab_rows
from steepest_lab.sim.text import read_text
from steepest_lab.sim.workload import SimJob
from steepest_lab.sim.workloads.found import Found

COLUMNS = (
    "job_type",
    "command",
    "working_directory",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
    "priority_weight",
    "SLO",
    "arrival_time",
)
SHOCKWAVE = (*COLUMNS[:7], "mode", *COLUMNS[7:9], "duration", COLUMNS[9])
THROUGHPUTS = "simulation_throughputs.json"
WORKER_TYPE = "v100"
LEAST_S = 0.001
"""The shortest job of Shockwave's."""

_BATCH = re.compile(r"\(batch size (\d{1,9})\)$")

Speeds = Mapping[str, float]
"""Steps per second by ``('<job type>', <scale factor>)``, as Gavel writes it."""


def read_gavel(text: str, source: object, speeds: Speeds | None) -> Iterator[Found]:
    """The jobs, in seconds from zero; a job of scale factor n is n replicas of one GPU each.

    Args:
        text: The lines.
        source: The file's name, for errors.
        speeds: None: the lines are Shockwave's, which say how long a job runs.

    Raises:
        InputError: A line is not what the format says, or its job type was not measured at its scale factor.
    """
    for number, row in enumerate(tab_rows(text, SHOCKWAVE if speeds is None else COLUMNS, source)):
        kind = row.text("job_type")
        steps = row.whole("total_steps", least=1, most=MOST_ITERATIONS)
        scale = row.whole("scale_factor", least=1, most=MOST_GPUS)
        if speeds is None:
            work_s = row.number("duration", least=LEAST_S, most=LONGEST_S)
        elif speed := speeds.get(f"('{kind}', {scale})", 0.0):
            work_s = steps / speed
            if work_s > LONGEST_S:
                raise row.wrong("total_steps", f"at {speed:g} steps a second the job takes {work_s:g} s")
        else:
            raise row.wrong("job_type", f"no throughput is known of {kind!r} at scale factor {scale}")
        batch = _BATCH.search(kind)
        job = SimJob(
            name=f"job-{number}",
            submit_s=row.number("arrival_time", least=0, most=LONGEST_S),
            requests=Resources(gpus=1),
            replicas=scale,
            work_s=work_s,
            iterations=steps,
            model=_BATCH.sub("", kind).strip(),
            batch_size=int(batch[1]) if batch else None,
            details={
                "job_type": kind,
                "total_steps": str(steps),
                "scale_factor": str(scale),
                "priority_weight": f"{row.number('priority_weight', least=0, most=LONGEST_S):g}",
                "slo": f"{row.number('SLO', least=-1, most=LONGEST_S):g}",
            },
        )
        yield Found(row.line, job)


def read_speeds(path: Path) -> Speeds:
    """Steps per second of each kind of job on a worker type; kinds that did not run there are left out.

    Raises:
        InputError: The file does not have this format, or lacks the worker type.
    """
    hint = f"Name Gavel's {THROUGHPUTS}."
    try:
        found = msgspec.json.decode(read_text(path), type=dict[str, dict[str, dict[str, object]]])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path}: is not a file of throughputs: {error}", hint=hint) from error
    if WORKER_TYPE not in found:
        raise InputError(f"{path}: has no worker type {WORKER_TYPE}", hint=f"It has: {', '.join(sorted(found))}.")
    speeds = {}
    for kind, alone_or_with in found[WORKER_TYPE].items():
        speed = alone_or_with.get("null")
        if not isinstance(speed, int | float) or isinstance(speed, bool) or not 0 <= speed < math.inf:
            raise InputError(f"{path}, {WORKER_TYPE}.{kind}.null: {speed!r} is not a throughput", hint=hint)
        if speed:
            speeds[kind] = float(speed)
    return speeds


def find_throughputs(trace: Path) -> Path:
    """Gavel's file of throughputs, in the trace's folder or one of the two folders above, as in its repository.

    Raises:
        InputError: It is in none of them.
    """
    folders = trace.absolute().parents[:3]
    for folder in folders:
        if (folder / THROUGHPUTS).is_file():
            return folder / THROUGHPUTS
    raise InputError(
        f"{trace}: a trace of Gavel needs the throughputs that it was measured with",
        hint=f"Put Gavel's {THROUGHPUTS} next to it.",
    )
