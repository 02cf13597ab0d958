"""Submissions of the Pollux artifact (Qiao and others, OSDI 2021): ``name,time,application,num_replicas,batch_size``.

The file states when a job arrives, not how long it takes: that follows from the artifact's measured tables, which its
own rules (``details``) use. For all other rules a job's work is estimated from :data:`GPU_SECONDS` ÷ its replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from steepest.events.common import Resources
from steepest_lab.sim.table import LONGEST_S, csv_rows
from steepest_lab.sim.workload import SimJob
from steepest_lab.sim.workloads.found import Found

COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")

GPU_SECONDS: Mapping[str, int] = {
    "bert": 8 * 3_215,
    "cifar10": 6 * 910,
    "deepspeech2": 12 * 2_477,
    "imagenet": 16 * 52_307,
    "ncf": 47,
    "yolov3": 4 * 15_997,
}
"""GPUs times seconds of one run of each application alone, as the artifact's simulator has it at a batch size that its
workloads use (bert 192, cifar10 2,048, deepspeech2 640, imagenet 6,400, ncf 32,768, yolov3 128), start-up left out."""

ITERATIONS: Mapping[str, int] = {
    "bert": 14_774,
    "cifar10": 39_063,
    "deepspeech2": 28_536,
    "imagenet": 576_526,
    "ncf": 194_174,
    "yolov3": 103_444,
}
"""Iterations of a whole run, in steps of the application's initial batch size."""

_MOST_REPLICAS = 10**5
_BATCH = 10**9


def read_pollux(text: str, source: object) -> Iterator[Found]:
    """The submissions, in seconds from zero; a replica has one GPU.

    Raises:
        InputError: A line is not what the format says, or names an application that was not measured.
    """
    for row in csv_rows(text, COLUMNS, source):
        application = row.text("application")
        if application not in GPU_SECONDS:
            raise row.wrong("application", f"{application!r} is none of {', '.join(GPU_SECONDS)}")
        replicas = row.whole("num_replicas", least=1, most=_MOST_REPLICAS)
        batch_size = row.whole("batch_size", least=1, most=_BATCH)
        job = SimJob(
            name=row.text("name"),
            submit_s=row.number("time", least=0, most=LONGEST_S),
            requests=Resources(gpus=1),
            replicas=replicas,
            work_s=GPU_SECONDS[application] / replicas,
            iterations=ITERATIONS[application],
            model=application,
            batch_size=batch_size,
            details={"application": application, "num_replicas": str(replicas), "batch_size": str(batch_size)},
        )
        yield Found(row.line, job, "name")
