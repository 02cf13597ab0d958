"""Steepest's own workload format: JSON Lines, one object per job with the fields of ``SimJob``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec

from steepest.errors import InputError
from steepest.events.common import Resources
from steepest_lab.sim.losses.families import FAMILIES
from steepest_lab.sim.table import LONGEST_S, MOST_CPU_M, MOST_GPUS, MOST_ITERATIONS, MOST_MEMORY_MIB
from steepest_lab.sim.workload import SimJob
from steepest_lab.sim.workloads.found import Found

_BOUNDS: Mapping[str, tuple[float, float]] = {
    "submit_s": (0, LONGEST_S),
    "replicas": (1, 10**5),
    "min_replicas": (0, 10**4),
    "max_replicas": (0, 10**4),
    "servers": (0, 10**4),
    "exchanged_mib": (0, MOST_MEMORY_MIB),
    "work_s": (1e-6, LONGEST_S),
    "iterations": (1, MOST_ITERATIONS),
    "batch_size": (1, 10**9),
    "memory_mib": (0, MOST_MEMORY_MIB),
    "demand_cpu_m": (0, MOST_CPU_M),
    "priority": (-(10**6), 10**6),
    "fails_at": (0, 1),
    "requests.cpu_m": (0, MOST_CPU_M),
    "requests.memory_mib": (0, MOST_MEMORY_MIB),
    "requests.gpus": (0, MOST_GPUS),
}
_MOST_DETAILS = 100
_LONGEST_TEXT = 200


def read_jsonl(text: str, source: object) -> Iterator[Found]:
    """The jobs, in seconds from zero.

    Raises:
        InputError: A line is not an object, lacks a field, has an unknown field, or a value out of bounds.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            raw = msgspec.json.decode(line, type=dict[str, object])
            job = msgspec.convert(raw, SimJob)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise InputError(
                f"{source}, line {number}: is not a job: {error}", hint="See docs/workloads.md."
            ) from error
        if (fault := _unknown(raw) or _fault(job)) is not None:
            raise InputError(f"{source}, line {number}, column {fault}", hint="See docs/workloads.md.")
        yield Found(number, job, "name")


def _unknown(raw: Mapping[str, object]) -> str | None:
    requests = raw["requests"]
    fields = [(name, name in SimJob.__struct_fields__) for name in raw]
    fields += [(f"requests.{name}", name in Resources.__struct_fields__) for name in requests]  # type: ignore[attr-defined]
    return next((f"{name[:_LONGEST_TEXT]}: no job has such a field" for name, known in fields if not known), None)


def _fault(job: SimJob) -> str | None:
    for field, (least, most) in _BOUNDS.items():
        inner = field.removeprefix("requests.")
        value = getattr(job if inner == field else job.requests, inner)
        if value is not None and not (least <= value <= most and math.isfinite(value)):
            return f"{field}: {value} is not between {least:g} and {most:g}"
    for field, text in (("name", job.name), ("model", job.model), *job.details.items()):
        if len(text) > _LONGEST_TEXT:
            return f"{field[:_LONGEST_TEXT]}: has {len(text)} letters; {_LONGEST_TEXT} at most are read"
    if not (job.min_replicas or job.replicas) <= job.replicas <= (job.max_replicas or job.replicas):
        return "replicas: are not between min_replicas and max_replicas"
    if not job.name:
        return "name: is empty"
    if len(job.details) > _MOST_DETAILS:
        return f"details: has {len(job.details)} entries; {_MOST_DETAILS} at most are read"
    unknown = job.family and job.family not in FAMILIES
    return f"family: there is no loss family {job.family[:_LONGEST_TEXT]!r}" if unknown else None
