"""A job of a workload as a training that simulated nodes can run."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from steepest_lab.sim.losses.noise import normal, stream_of
from steepest_lab.sim.losses.training import JobLosses as Losses
from steepest_lab.sim.workload import SimJob
from steepest_lab.simulated.model import Delay, Model

REPORTS_AN_INTERVAL = 5
"""A job that computes fast reports no more often than this in an interval: the growth of its mean is the same."""

DELAYS_S = {Delay.LAUNCH: (0.7, 1.0), Delay.RESTORE: (0.3, 0.3), Delay.SAVE: (0.3, 0.3)}
"""Mean and standard deviation of each delay. With 900 MiB written and read at 500 MiB/s, and ``ACT_S`` for a stop and a
start, a move costs about 6 s: SpeCon's thesis gives less than 5 s for saving and resuming with a deviation of 1.43 s, and
its authors' log 1.1 s of the manager's time."""

LEAST_S = 0.05

IDLE_STEP_S = 1e-9


def model_of(job: SimJob, seed: int, interval_s: float) -> Model:
    """The model of each replica of a job on a node, with the job's own number of replicas.

    Args:
        job: Its steps are its iterations.
        seed: Draws its noise and its delays.
        interval_s: The interval in which it should report several times.
    """
    step_s = job.work_s / job.iterations
    demand_m = 0 if job.gpus else (job.demand_cpu_m or job.requests.cpu_m)
    return Model(
        steps=job.iterations,
        says=job.says,
        total=round(job.iterations * job.announced) or None,
        step_s=step_s,
        demand_m=demand_m,
        idle_m=0,
        report_every=max(1, int(interval_s / REPORTS_AN_INTERVAL / step_s)),
        loss=Losses(job, seed).loss,
        delay_s=_delays(job.name, seed),
        checkpoint_mib=job.memory_mib,
        exchanged_mib=job.exchanged_mib if job.is_gang else 0.0,
        crash_at=round(job.fails_at * job.iterations),
    )


def member_of(model: Model, job: SimJob, workers: int, *, serves: bool, chief: bool) -> Model:
    """The model of a gang's member: a step's batch has a fixed size and is divided among the workers.

    A parameter server computes so little that no worker waits for it. Of asynchronous workers all but the chief may leave.
    """
    if serves:
        return msgspec.structs.replace(model, step_s=IDLE_STEP_S, demand_m=0, serves=True)
    step_s = model.step_s * job.replicas / workers
    return msgspec.structs.replace(model, step_s=step_s, may_leave=job.asynchronous and not chief)


def _delays(name: str, seed: int) -> Callable[[Delay, int], float]:
    """Delays of a job, functions of the incarnation alone, so that two policies draw the same."""
    streams = {delay: stream_of(seed, f"{name}/{delay.value}") for delay in Delay}

    def delay_s(delay: Delay, incarnation: int) -> float:
        mean, deviation = DELAYS_S[delay]
        return max(LEAST_S, mean + deviation * normal(streams[delay], incarnation))

    return delay_s
