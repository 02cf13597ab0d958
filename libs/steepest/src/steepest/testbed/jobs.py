"""Maps the jobs of an experiment to small trainings of the same relative length, and measures the cost of their steps.

It owns the mapping of models to the demo's trainings, and the time scale. Lengths are in CPU time, measured on the node
before the experiment, so that the ratios of lengths and arrivals are those of the experiment on any machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import docker
import msgspec

from steepest.app.state_folder import NodeSpec
from steepest.demo.workload import REQUEST, Arrival, DemoWorkload
from steepest.docker_lab.engine_daemon import DockerEngine
from steepest.docker_lab.images import DEMO
from steepest.errors import ClusterError
from steepest.events.cluster import JobSpec
from steepest.events.common import Resources
from steepest.sim.workload import SimJob, Workload

SCALE = 10
"""Seconds of the experiment per real second."""

KINDS: Mapping[str, str] = {
    "vae-flowcon": "vae",
    "mnist-pytorch": "mlp",
    "mnist-tensorflow": "softmax",
    "gru-flowcon": "gru",
    "lstm-cfc": "charlm",
    "lstm-crf": "mixture",
}
"""Model of FlowCon's experiments to the demo's training that represents it."""

MACHINE_M = 8_000
"""The size of the experiment's node, in millicores."""

PYTHON = "python3"

_ONE_BATCH = ("--work", "0.1")
"""The smallest step: with Debian's slow BLAS a run then has about the default number of steps, and so a complete curve."""

_FEW_STEPS, _MORE_STEPS = 20, 100
_PROBED_S = 2.0
"""CPU time over which a step's cost is measured, in seconds: the first steps are cheaper than later ones."""

_PROBE = (
    "import runpy, sys, time; sys.argv[1:1] = ['probe']; sys.argv = sys.argv[1:]; "
    "runpy.run_module('steepest.demo_jobs.{kind}', run_name='__main__'); print('\\nprobe', time.process_time())"
)
_TIMEOUT_S = 120


class Cost(msgspec.Struct, frozen=True):
    """CPU time of a training's start and of each step, in seconds."""

    start_s: float
    step_s: float


def costs(engine: DockerEngine, models: Sequence[str]) -> dict[str, Cost]:
    """Measure the costs of the trainings that represent some models, on the node.

    Raises:
        ClusterError: A training did not run.
    """
    found = {}
    with contextlib.closing(engine.client()) as client:
        for model in models:
            found[model] = _cost(client, KINDS[model])
    return found


def scaled(jobs: Workload, costs: Mapping[str, Cost], engine: DockerEngine, cpu_m: int, seed: int) -> DemoWorkload:
    """The experiment's jobs as a workload for the node."""
    arrivals = tuple(_arrival(job, costs[job.model], cpu_m, seed) for job in jobs.jobs)
    one = NodeSpec("n1", Resources(cpu_m=cpu_m, memory_mib=4096), engine=engine.url)
    return DemoWorkload(nodes=(one,), arrivals=arrivals, image=DEMO, soft_limits=True)


def whole_node_s(job: SimJob) -> float:
    """The duration of a job in the experiment if it used the whole node, in seconds."""
    return job.work_s * job.demand_cpu_m / MACHINE_M


def _arrival(job: SimJob, cost: Cost, cpu_m: int, seed: int) -> Arrival:
    kind, core_s = KINDS[job.model], whole_node_s(job) * cpu_m / 1000 / SCALE
    steps = max(1, round((core_s - cost.start_s) / cost.step_s))
    options = ("--steps", str(steps), "--seed", str(seed), *_ONE_BATCH)
    return Arrival(
        at_s=job.submit_s / SCALE,
        job=job.name,
        kind=kind,
        spec=JobSpec(command=(PYTHON, "-m", f"steepest.demo_jobs.{kind}", *options), requests=REQUEST, model=job.model),
        core_s=core_s,
    )


def _cost(client: docker.APIClient, kind: str) -> Cost:
    few, more = (_probe(client, kind, steps) for steps in (_FEW_STEPS, _MORE_STEPS))
    steps = _FEW_STEPS + round(_PROBED_S * (_MORE_STEPS - _FEW_STEPS) / max(more - few, 0.01))
    step_s = (_probe(client, kind, steps) - few) / (steps - _FEW_STEPS)
    return Cost(max(0.0, few - _FEW_STEPS * step_s), step_s)


def _probe(client: docker.APIClient, kind: str, steps: int) -> float:
    """CPU time of a training that runs alone on the node, in seconds."""
    command = [PYTHON, "-c", _PROBE.format(kind=kind), "--steps", str(steps), *_ONE_BATCH]
    host = client.create_host_config(network_mode="none")
    made = client.create_container(
        DEMO, command, host_config=host, environment={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    )["Id"]
    try:
        client.start(made)
        client.wait(made, timeout=_TIMEOUT_S)
        output = client.logs(made).decode(errors="replace").split()
        if output[-2:-1] != ["probe"]:
            raise ClusterError(f"the training {kind} did not run: {' '.join(output)[-500:]}", code="no-training")
        return float(output[-1])
    finally:
        client.remove_container(made, force=True)
