"""Which jobs the policy ``steepest`` gives whole devices, and whether it does."""

from __future__ import annotations

from steepest.events.parameters import PoolParameters
from steepest.view.state import Job


def is_in_force(parameters: PoolParameters) -> bool:
    """Whether jobs with devices are placed and suspended by the policy ``steepest``."""
    return parameters.steepest.on and not parameters.dragon.on


def has_devices(job: Job) -> bool:
    """Whether any replica of a job asks for GPUs, or for a share of one."""
    return any(role.requests.all_gpus_m for role in job.spec.all_roles)


def devices_of(job: Job, sizes: tuple[int, ...] = ()) -> float:
    """GPUs of all replicas of a job; ``sizes``: of so many of each role, if not of all."""
    return sum(one.all_gpus_m for one in job.spec.replica_requests(sizes)) / 1000
