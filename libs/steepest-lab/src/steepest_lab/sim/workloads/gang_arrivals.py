"""Arrivals of gangs, drawn from a seed; named like ``gangs:4:1.0``, for four nodes of four GPUs at a load of 1.

A reconstruction. DRAGON's public sources name its test bed (two worker nodes), its jobs (TensorFlow's ResNet and AlexNet
by parameter servers) and its sizes (fewest, named and most workers); arrivals, lengths and the network they do not state.

* Half of the jobs have a parameter server, the others an all-reduce. They name two or four workers of a GPU each, and run
  with half to twice as many.
* Alone on one node with the workers that it names, a job takes 300 to 1,800 s, drawn log-uniformly.
* The load is what all jobs need by that, over what the GPUs can give from the first arrival to the last. Arrivals are drawn
  uniformly over that time.
* Gradients are those of the models' published numbers of parameters, in 32 bits; the times of a step are round figures of
  the order that a GPU of that time took for a usual batch.
"""

from __future__ import annotations

import math
import random
import re

import msgspec

from steepest.errors import InputError
from steepest.events.common import Resources
from steepest_lab.sim.workload import SimJob, Workload

PREFIX = "gangs:"

GPUS_A_NODE = 4
JOBS_A_NODE = 8
FEWEST_JOBS = 24
MOST_JOBS = 256
SHORTEST_S = 300.0
LONGEST_S = 1_800.0
MEMORY_MIB = 900

_NAME = re.compile(r"gangs:(\d{1,4}):(\d{1,2}(?:\.\d{1,3})?)", re.ASCII)


class GangModel(msgspec.Struct, frozen=True):
    """A model that gangs train.

    Attributes:
        exchanged_mib: Its gradients.
        step_s: A step of the whole batch with the workers that a job names.
    """

    name: str
    exchanged_mib: float
    step_s: float


MODELS = (
    GangModel("resnet-50", 98.0, 0.4),
    GangModel("alexnet", 233.0, 0.8),
    GangModel("inception-v3", 91.0, 0.6),
    GangModel("vgg-16", 528.0, 1.2),
)


def gang_arrivals(name: str, seed: int) -> Workload:
    """The jobs of a name; the same seed gives the same jobs on every machine.

    Raises:
        InputError: The name is no such name, or its load is 0.
    """
    match = _NAME.fullmatch(name)
    nodes, load = (int(match[1]), float(match[2])) if match else (0, 0.0)
    if not nodes or not load:
        raise InputError(
            f"workload {name[:100]!r}: there are no such gangs",
            hint="Write gangs:NODES:LOAD, e.g. gangs:4:1.0 for the cluster 4x4gpu.",
        )
    rng = random.Random(seed)  # noqa: S311 - no secret depends on it
    count = min(MOST_JOBS, max(FEWEST_JOBS, JOBS_A_NODE * nodes))
    jobs = [_job(number, rng) for number in range(1, count + 1)]
    window_s = sum(job.gpus * job.work_s for job in jobs) / (GPUS_A_NODE * nodes * load)
    times = sorted(rng.random() * window_s for _ in jobs)
    placed = [msgspec.structs.replace(job, submit_s=round(at_s, 3)) for job, at_s in zip(jobs, times, strict=True)]
    return Workload(source=name, format="arrivals", jobs=tuple(placed))


def _job(number: int, rng: random.Random) -> SimJob:
    model = MODELS[int(rng.random() * len(MODELS))]
    workers = 2 + 2 * int(rng.random() * 2)
    servers = int(rng.random() * 2)
    work_s = SHORTEST_S * math.exp(rng.random() * math.log(LONGEST_S / SHORTEST_S))
    return SimJob(
        name=f"gang-{number}",
        submit_s=0.0,
        requests=Resources(cpu_m=2_000, memory_mib=4_096, gpus=1),
        replicas=workers,
        min_replicas=workers // 2,
        max_replicas=2 * workers,
        servers=servers,
        exchanged_mib=model.exchanged_mib,
        work_s=work_s,
        iterations=max(1, round(work_s / model.step_s)),
        model=model.name,
        memory_mib=MEMORY_MIB,
    )
