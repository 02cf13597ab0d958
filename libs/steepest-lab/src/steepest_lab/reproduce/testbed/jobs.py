"""Maps the jobs of an experiment to small trainings of the same relative length.

It owns the mapping of models to the demo's trainings, and the time scale.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from steepest.events.cluster import JobSpec
from steepest_lab.demo.workload import REQUEST, Arrival, DemoWorkload
from steepest_lab.sim.workload import SimJob, Workload

if TYPE_CHECKING:
    from steepest_lab.reproduce.testbed.nodes import Testbed

SCALE = 10
"""Seconds of the experiment per real second."""

KINDS: Mapping[str, str] = {
    "vae-flowcon": "vae",
    "mnist-pytorch": "mlp",
    "mnist-tensorflow": "softmax",
    "gru-flowcon": "gru",
    "lstm-cfc": "charlm",
    "lstm-crf": "mixture",
    "vae-pytorch": "vae",
    "vae-tensorflow": "vae",
    "gru-pytorch": "gru",
    "gru-tensorflow": "gru",
    "rnn-pytorch": "rnn",
    "rnn-tensorflow": "rnn",
    "bi-rnn-pytorch": "birnn",
    "bi-rnn-tensorflow": "birnn",
    "dynamic-rnn-pytorch": "dynamic_rnn",
    "dynamic-rnn-tensorflow": "dynamic_rnn",
}
"""Model of the experiments to the demo's training that represents it; its frameworks differ in length only."""

MACHINE_M = 8_000
"""The size of the experiments' nodes, in millicores."""

PYTHON = "python3"
"""In the demo's image."""

ONE_BATCH = ("--work", "0.1")
"""The smallest step: with Debian's slow BLAS a run then has about the default number of steps, and so a complete curve."""


class Cost(msgspec.Struct, frozen=True):
    """CPU time of a training's start and of each step, in seconds."""

    start_s: float
    step_s: float


def scaled(
    jobs: Workload, costs: Mapping[str, Cost], nodes: Testbed, seed: int, step: Sequence[str] = ONE_BATCH
) -> DemoWorkload:
    """The experiment's jobs as a workload for the nodes, from the first submission on: nothing happens before it.

    ``step``: the options that the costs were measured with.
    """
    begin_s = min(job.submit_s for job in jobs.jobs)
    options = ("--seed", str(seed), *step)
    return nodes.staged(tuple(_arrival(job, begin_s, costs[job.model], nodes.cpu_m, options) for job in jobs.jobs))


def whole_node_s(job: SimJob) -> float:
    """The duration of a job in the experiment if it used the whole node, in seconds."""
    return job.work_s * job.demand_cpu_m / MACHINE_M


def _arrival(job: SimJob, begin_s: float, cost: Cost, cpu_m: int, options: Sequence[str]) -> Arrival:
    kind, core_s = KINDS[job.model], whole_node_s(job) * cpu_m / 1000 / SCALE
    steps = max(1, round((core_s - cost.start_s) / cost.step_s))
    command = (sys.executable, "-m", f"steepest_lab.jobs.{kind}", "--steps", str(steps), *options)
    return Arrival(
        at_s=(job.submit_s - begin_s) / SCALE,
        job=job.name,
        kind=kind,
        spec=JobSpec(command=command, requests=REQUEST, model=job.model),
        core_s=core_s,
    )
